import TillerTesting

extension SeededRandom {
    /// A number from 0 on that is less than another.
    mutating func below(_ count: Int) -> Int { Int.random(in: 0..<max(count, 1), using: &self) }

    /// Whether something that happens once in so many times happens now; with 0 it never does.
    mutating func happens(onceInOrNever count: Int) -> Bool { count > 0 && happens(onceIn: count) }
}
