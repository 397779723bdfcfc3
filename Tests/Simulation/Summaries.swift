import Tiller

// For people who read a trace.

extension Plan {
    var summary: String {
        "\(isApp ? "app" : "service"), memory \(limits.memoryEvents), storage \(limits.storageBytes), "
            + "batch \(limits.batchBytes), \(batching == .mixed ? "mixed" : "per identity"), \(lives) lives, "
            + "\(policies.count) policies"
    }
}

extension SimulatedDataPlane.Course {
    var summary: String {
        let answer = answer.map { "\($0.status)" } ?? "no answer"
        return "\(arrives ? "arrives" : "is lost"), \(answer) after \(delay)"
    }
}

extension SimulatedDisk.Faults: CustomStringConvertible {
    var description: String {
        if isFull { return "no space" }
        if self == SimulatedDisk.Faults() { return "no faults" }
        return "failures: writes 1:\(failingWrites), syncs 1:\(failingSyncs), reads 1:\(failingReads)"
    }
}
