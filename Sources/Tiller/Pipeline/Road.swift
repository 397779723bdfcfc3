/// One thing on its way through the pipeline, with the state that was saved in the same critical section.
struct RoadItem: Sendable {
    enum Load: Sendable {
        /// Only state.
        case none
        case event(Event)
        case reset(ResetOptions)
        case flush
        /// The state that was saved with it is stored after all else is gone.
        case erase
        case add(any Plugin)
        case remove(any Plugin)
        /// Run when everything before it has left the pipeline and, if asked, every destination.
        case barrier(throughDestinations: Bool, @Sendable () -> Void)
        /// Nothing comes after it.
        case close
    }

    var load: Load
    var changes: [StateChange]
}

/// What waits between the calls and the pipeline: chunks, so that taking and recycling them costs nothing per item.
struct Road: Sendable {
    /// Large enough to spread the cost of a critical section, small enough that the first event of a burst is not held up.
    private static let chunkSize = 512

    private var chunks: [[RoadItem]] = []
    private var tail: [RoadItem] = []
    private(set) var isEmpty = true
    /// Items that are no events: those are counted where their memory is.
    private(set) var commandCount = 0
    /// Whether the pipeline is at work or about to be.
    var isServed = false

    mutating func append(_ item: consuming RoadItem) {
        if tail.count == Self.chunkSize {
            chunks.append(tail)
            tail = []
            tail.reserveCapacity(Self.chunkSize)
        }
        if case .event = item.load {} else { commandCount += 1 }
        tail.append(item)
        isEmpty = false
    }

    /// Takes a reset into one at the end of the road, if there is one.
    mutating func mergeIntoTail(_ options: ResetOptions) -> Bool {
        guard case .reset(let last)? = tail.last?.load else { return false }
        tail[tail.count - 1].load = .reset(ResetOptions(entries: last.entries.union(options.entries)))
        return true
    }

    /// Adds state to the last item, for when there is no room for another: nothing grows but what the state itself does.
    mutating func mergeIntoTail(_ changes: [StateChange]) {
        guard !tail.isEmpty else {
            append(RoadItem(load: .none, changes: changes))
            return
        }
        tail[tail.count - 1].changes.merge(changes)
    }

    /// Everything that waits, oldest first.
    mutating func takeAll() -> [[RoadItem]] {
        var taken = chunks
        if !tail.isEmpty { taken.append(tail) }
        chunks = []
        tail = []
        isEmpty = true
        commandCount = 0
        return taken
    }
}

extension [StateChange] {
    /// Later changes of the same object are taken into the earlier ones.
    mutating func merge(_ later: [StateChange]) {
        for change in later {
            if let index = firstIndex(where: { $0.key == change.key }) {
                self[index].changes.merge(change.changes)
            } else {
                append(change)
            }
        }
    }
}
