extension FaultScript {
    /// To which requests a rule applies.
    ///
    /// ```swift
    /// .at(3)
    /// .every(10).from(20).to(60)      // the 29th, 39th, 49th and 59th
    /// .chance(0.05).lasting(4)        // one in twenty, and the three after it
    /// ```
    public struct Occasion: Sendable, Hashable {
        enum Rhythm: Hashable {
            case every(Int)
            case chance(Double)
        }

        var rhythm: Rhythm
        /// Where it may begin to apply.
        var first = 1
        var last: Int?
        /// For how many requests it goes on each time.
        var length = 1

        /// Every request.
        public static let always = Occasion(rhythm: .every(1))

        /// One request.
        ///
        /// - Parameter number: Which, from 1.
        public static func at(_ number: Int) -> Occasion { always.from(number).to(number) }

        /// Every n-th request.
        ///
        /// - Parameter count: How many requests lie from one to the next; less than 1 is taken for 1.
        public static func every(_ count: Int) -> Occasion { Occasion(rhythm: .every(max(1, count))) }

        /// Each request, with a probability.
        ///
        /// - Parameter probability: From 0, never, to 1, always.
        public static func chance(_ probability: Double) -> Occasion { Occasion(rhythm: .chance(probability)) }

        /// The occasion, but not before a request; every n-th is counted from there.
        ///
        /// - Parameter number: The first, from 1.
        public func from(_ number: Int) -> Occasion {
            var occasion = self
            occasion.first = max(1, number)
            return occasion
        }

        /// The occasion, but not after a request.
        ///
        /// - Parameter number: The last, from 1.
        public func to(_ number: Int) -> Occasion {
            var occasion = self
            occasion.last = number
            return occasion
        }

        /// The occasion, going on for some requests each time, also beyond the last one of `to(_:)`.
        ///
        /// - Parameter count: For how many; less than 1 is taken for 1.
        public func lasting(_ count: Int) -> Occasion {
            var occasion = self
            occasion.length = max(1, count)
            return occasion
        }

        /// - Parameter fraction: From 0 up to 1, the same for the same request.
        func applies(to number: Int, fraction: (Int) -> Double) -> Bool {
            let earliest = max(first, number - (length - 1))
            let latest = min(last ?? number, number)
            guard earliest <= latest else { return false }
            switch rhythm {
            case .every(let count):
                // Whether the last multiple up to the latest is not before the earliest.
                let steps = (latest - first + 1) / count
                return steps > 0 && first + steps * count - 1 >= earliest
            case .chance(let probability):
                return (earliest...latest).contains { fraction($0) < probability }
            }
        }
    }
}
