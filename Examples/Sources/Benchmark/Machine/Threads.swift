import Foundation

/// Runs a body on so many threads, which begin together.
///
/// - Parameters:
///   - count: How many threads.
///   - body: Is told which one it is.
/// - Returns: What each returned, as they ended.
func onThreads<Result: Sendable>(
    _ count: Int, _ body: @escaping @Sendable (Int) -> Result
) async -> [Result] {
    let (results, continuation) = AsyncStream.makeStream(of: Result.self)
    start(count) { continuation.yield(body($0)) }
    var all: [Result] = []
    for await result in results {
        all.append(result)
        if all.count == count { break }
    }
    return all
}

private func start(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let ready = DispatchSemaphore(value: 0)
    let gate = DispatchSemaphore(value: 0)
    for index in 0..<count {
        Thread {
            ready.signal()
            gate.wait()
            body(index)
        }.start()
    }
    for _ in 0..<count { ready.wait() }
    for _ in 0..<count { gate.signal() }
}
