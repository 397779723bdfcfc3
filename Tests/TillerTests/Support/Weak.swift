/// A reference that keeps nothing alive. Put it into a `Locked` where threads share it.
struct Weak<Object: AnyObject & Sendable>: Sendable {
    weak var object: Object?

    init(_ object: Object) { self.object = object }

    /// Waits until the object is gone, or until the test's time limit.
    func gone() async {
        while object != nil, !Task.isCancelled { await Task.yield() }
    }
}
