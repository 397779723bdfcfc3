extension FaultScript {
    /// A script of every kind of fault that passes, for clients that must lose nothing whatever happens.
    ///
    /// About a third of the requests meet a fault, some of them in rows of up
    /// to six. No fault lasts, none accepts what it does not store, and none
    /// refuses events for what is in them (400, 413 and 422 are not among
    /// them): a client that keeps what it is not sure of gets everything
    /// through. `Retry-After` is at most two seconds, a delay at most 50 ms.
    ///
    /// - Parameter seed: The same script for the same seed, and its `seed` too.
    public static func random(seed: UInt64) -> FaultScript {
        var random = SeededRandom(seed: seed, stream: -1)
        let rules = passingFaults(&random).shuffled(using: &random).map { fault in
            // In ten thousandths: so that the text is short.
            let length = Bool.random(using: &random) ? 1 : Int.random(in: 1...6, using: &random)
            let chance = Double(Int.random(in: 20...180, using: &random) / length) / 10_000
            let delay = random.happens(onceIn: 4) ? Int.random(in: 1...50, using: &random) : 0
            return Rule(.chance(chance).lasting(length), fault, delay: .milliseconds(delay))
        }
        let slow = Rule(.chance(0.02), delay: .milliseconds(Int.random(in: 1...50, using: &random)))
        return FaultScript(rules + [slow], seed: seed)
    }

    private static func passingFaults(_ random: inout SeededRandom) -> [Fault] {
        let cuts = Point.allCases.flatMap { [Fault.cut($0), .cut($0, isReset: true)] }
        let seconds = RetryAfter.seconds(Int.random(in: 0...2, using: &random))
        let date = RetryAfter.date(after: .seconds(Int.random(in: 0...2, using: &random)))
        let answers: [Fault] = [
            .status(401, "invalid write key\n"), .status(403, "Forbidden\n"), .status(404, "404 page not found\n"),
            .status(404, "source is disabled\n"), .status(429, "max requests limit reached\n"),
            .status(429, "max requests limit reached\n", retryAfter: seconds), .status(408), .status(425),
            .status(500, "pq: deadlock detected\n"), .status(502, "<html>Bad Gateway</html>"),
            .status(503, "Service Unavailable\n", retryAfter: date),
            .status(Answer(504, "gateway timeout\n", isStored: true)),
        ]
        let pause = Duration.milliseconds(Int.random(in: 0...1, using: &random))
        let lines: [Fault] = [
            .refused, .refused, .page(), .garbage(), .trickled(), .trickled(pause: pause), .truncated, .length(1),
            .length(1_000), .chunked, .closing,
        ]
        let redirects = [301, 302, 307, 308].map { Fault.redirect($0, location: "/elsewhere") }
        return cuts + answers + lines + redirects
    }
}
