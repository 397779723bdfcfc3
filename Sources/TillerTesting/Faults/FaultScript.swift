/// What goes wrong between a client and a `LocalDataPlane`, request by request: a small script, made in Swift or read from
/// a text.
///
/// ```
/// # The third request never gets in. From the tenth on one in ten is stored, and nobody hears of it.
/// seed 7
/// at 3: refuse
/// chance 0.1 from 10: cut after-storing
/// every 25 for 3: status 503 "Service Unavailable\n" retry-after 2s
/// ```
///
/// ```swift
/// var rules = LocalDataPlane.Rules()
/// rules.faults = FaultScript([.init(.at(3), .refused), .init(.every(10), .cut(.afterStoring))])
/// let plane = try LocalDataPlane(rules: rules)
/// ```
///
/// Requests are counted from 1, those to `POST /v1/batch` only, as they come
/// in: in the order of their heads. The first rule that applies to a request
/// decides alone. What a rule decides follows from the seed and the number:
/// the same requests meet the same faults.
///
/// A line of the text is `WHEN: FAULT`, or `seed N`; `#` begins a comment.
///
/// | when | applies to |
/// |---|---|
/// | `always` | every request |
/// | `at N` | the N-th |
/// | `every N` | every N-th |
/// | `chance P` | each, with a probability from 0 to 1 |
/// | `from A to B` | all from the A-th to the B-th |
///
/// `from A` and `to B` may follow the others too; `every` counts from A then.
/// With `for K` the rule goes on for K requests each time, also beyond B.
///
/// | fault | |
/// |---|---|
/// | `refuse` | the connection is reset as soon as it is made |
/// | `cut POINT`, `reset POINT` | the connection closes, or is reset, without an answer: `before-reading` the body, `in-body`, `before-storing`, `after-storing` |
/// | `status N "BODY" header NAME "VALUE" retry-after D stored` | that answer; all but the number can be left out. `retry-after-date D` has the header's other form. With `stored` the events are stored all the same |
/// | `page "HTML"` | 200 and a page, as of a hotel's network; its text can be left out |
/// | `redirect N LOCATION` | 301, 302, 303, 307 or 308, to a path or a URL of this machine |
/// | `garbage "TEXT"` | what is no HTTP; the text can be left out |
/// | `trickle D` | the true answer, byte by byte, with a pause after each; it can be left out |
/// | `truncate` | the true answer, which ends in the middle of its body |
/// | `length N` | the true answer with this `Content-Length`, and the connection closes |
/// | `chunked` | the true answer in chunks of one byte |
/// | `close` | the true answer, and the connection closes without notice |
/// | `delay D` | the true answer, later |
/// | `delay D then FAULT` | one of the above, later |
///
/// Texts are JSON strings, durations are `250ms`, `1.5s`, `5m` and the like.
public struct FaultScript: Sendable, Hashable {
    /// What chances are drawn from.
    public var seed: UInt64
    /// In their order: the first that applies decides.
    public var rules: [Rule]

    /// A script.
    ///
    /// - Parameters:
    ///   - rules: In their order.
    ///   - seed: What chances are drawn from; 0 by default.
    public init(_ rules: [Rule] = [], seed: UInt64 = 0) {
        self.rules = rules
        self.seed = seed
    }

    /// What happens to which requests.
    public struct Rule: Sendable, Hashable {
        /// To which.
        public var occasion: Occasion
        /// How long the answer, or its absence, is held back, by the data plane's time source; zero for not at all.
        /// What is stored is stored before.
        public var delay: Duration
        /// What is done; `nil`: nothing but the delay.
        public var fault: Fault?

        /// A rule.
        ///
        /// - Parameters:
        ///   - occasion: To which requests it applies.
        ///   - fault: What is done; `nil`, the default: nothing but the delay.
        ///   - delay: How long the answer is held back; not at all by default.
        public init(_ occasion: Occasion, _ fault: Fault? = nil, delay: Duration = .zero) {
            self.occasion = occasion
            self.fault = fault
            self.delay = delay
        }
    }

    /// The rule for a request.
    ///
    /// - Parameter number: Which request it is, from 1.
    /// - Returns: The first rule that applies; `nil`: none does.
    public func rule(forRequest number: Int) -> Rule? {
        rules.indices.first { index in
            rules[index].occasion.applies(to: number) { number in
                SeededRandom(seed: seed &+ UInt64(index) &* 0xA24B_AED4_963E_E407, stream: number).firstFraction
            }
        }.map { rules[$0] }
    }
}

extension SeededRandom {
    /// The first number of the sequence, from 0 up to 1.
    fileprivate var firstFraction: Double {
        var random = self
        return Double(random.next() >> 11) / Double(1 << 53)
    }
}
