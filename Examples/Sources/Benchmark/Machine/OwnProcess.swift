import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// What the system says of this process.
enum OwnProcess {
    /// The processor time of all threads.
    static var processorTime: Duration {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    }

    /// The resident memory of this moment, in bytes; `nil` where it is not known.
    static var residentBytes: Double? { statusLine("VmRSS").map { $0 * 1_024 } }

    /// The most memory that ever was resident, in bytes.
    static var peakBytes: Double {
        if let kilobytes = statusLine("VmHWM") { return kilobytes * 1_024 }
        var usage = rusage()
        #if canImport(Darwin)
        getrusage(RUSAGE_SELF, &usage)
        #else
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #endif
        return Double(usage.ru_maxrss)
    }

    /// The calls of `write` and its kind so far, also those that wake a thread; `nil` where it is not known.
    static var writeCalls: Double? { Proc.number(after: "syscw:", in: "/proc/self/io") }

    private static func statusLine(_ name: String) -> Double? {
        Proc.number(after: name + ":", in: "/proc/self/status")
    }
}

/// Linux's files on processes.
enum Proc {
    /// The number that follows a name; `nil` where there is none.
    static func number(after name: String, in path: String) -> Double? {
        guard let text = text(path) else { return nil }
        for line in text.split(separator: "\n") where line.hasPrefix(name) {
            return line.dropFirst(name.count).split(whereSeparator: { " \t".contains($0) }).first.flatMap { Double($0) }
        }
        return nil
    }

    /// What a file says; these have no size, and Foundation reads them to their end all the same.
    static func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }
}

/// What the threads of a process have done so far.
struct Activity {
    /// How often a thread gave up its processor or lost it.
    var switches = 0.0
    /// Nanoseconds on a processor.
    var processorTime = 0.0

    /// - Returns: `nil` where the system does not say.
    init?(of process: Int32) {
        let folder = "/proc/\(process)/task"
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: folder), !threads.isEmpty else {
            return nil
        }
        for thread in threads {
            let status = "\(folder)/\(thread)/status"
            switches += Proc.number(after: "voluntary_ctxt_switches:", in: status) ?? 0
            switches += Proc.number(after: "nonvoluntary_ctxt_switches:", in: status) ?? 0
            processorTime += Proc.number(after: "", in: "\(folder)/\(thread)/schedstat") ?? 0
        }
    }

    /// What was done since then.
    func since(_ before: Activity) -> Activity {
        var difference = self
        difference.switches -= before.switches
        difference.processorTime -= before.processorTime
        return difference
    }
}
