/// An event as it is stored and sent, but for `sentAt`.
///
/// The keys are those of the article "What is sent". `context` comes last, so that what the seal adds to it is spliced in
/// before the two closing braces, and the rest is never encoded again.
package struct EncodedEvent: Sendable {
    /// Perhaps a part of the texts of many: who keeps the event while those go takes a copy (`apart`).
    private(set) var bytes: ArraySlice<UInt8>
    /// Where the anonymous id's text lies, escaped, from the start; empty if there is none.
    let anonymousId: Range<Int>
    /// The call's.
    let moment: Moment
    /// CRC-32C of the bytes; `nil` after a change.
    private(set) var checksum: UInt32?

    init(bytes: [UInt8], anonymousId: Range<Int>, moment: Moment) {
        self.bytes = bytes[...]
        self.anonymousId = anonymousId
        self.moment = moment
    }

    /// - Parameters:
    ///   - written: Where it lies in the texts.
    ///   - texts: Of many events.
    ///   - moment: The call's.
    init(_ written: WrittenEvent, in texts: [UInt8], moment: Moment) {
        bytes = texts[written.text]
        anonymousId = written.anonymousId
        self.moment = moment
        checksum = written.checksum
    }

    /// The same in memory of its own.
    var apart: EncodedEvent {
        var event = self
        event.bytes = Array(bytes)[...]
        return event
    }

    /// Adds a member to the context.
    mutating func splice(_ key: String, _ value: JSONValue) {
        let isEmpty = bytes[bytes.endIndex - 3] == UInt8(ascii: "{")
        bytes.removeLast(2)
        var writer = JSONWriter()
        if !isEmpty { writer.raw(",") }
        writer.writeMember(key, value)
        writer.raw("}}")
        writer.withUTF8 { bytes.append(contentsOf: $0) }
        checksum = nil
    }
}

/// Where an event lies among the texts of many.
struct WrittenEvent: Sendable {
    let text: Range<Int>
    /// Where the anonymous id's text lies, from the event's start.
    let anonymousId: Range<Int>
    /// CRC-32C of the event's text.
    let checksum: UInt32
}

extension [UInt8] {
    /// Adds an event to the texts of many.
    ///
    /// - Parameters:
    ///   - writer: Has written it, and nothing else.
    ///   - anonymousId: Where the anonymous id lies in that.
    mutating func append(_ writer: borrowing JSONWriter, anonymousId: Range<Int>) -> WrittenEvent {
        let start = count
        return writer.withUTF8 { text in
            append(contentsOf: text)
            return WrittenEvent(
                text: start..<start + text.count, anonymousId: anonymousId,
                checksum: CRC32C.checksum(of: UnsafeRawBufferPointer(text)))
        }
    }
}

extension JSONWriter {
    /// Writes an event in place of what is there.
    ///
    /// - Returns: Where the anonymous id's text lies.
    mutating func write(_ event: borrowing Event, channel: Channel) -> Range<Int> {
        clear()
        enter()
        writeHead(of: event.kind)
        write(event.messageId)
        raw("\",\"originalTimestamp\":")
        writeTimestamp(event.moment.wallMilliseconds)
        switch channel.name {
        case .mobile: raw(",\"channel\":\"mobile\"")
        case .server: raw(",\"channel\":\"server\"")
        }
        let start = count
        writeMember(",\"anonymousId\":", event.anonymousId)
        // Without the key before it and the quotes around it.
        let anonymousId = count == start ? 0..<0 : start + 16..<count - 1
        writeMember(",\"userId\":", event.userId)
        writeMember(",\"event\":", event.name)
        writeMember(",\"groupId\":", event.groupId)
        writeMember(",\"previousId\":", event.previousId)
        if event.integrations.isEmpty {
            raw(",\"integrations\":{\"All\":true}")
        } else {
            raw(",\"integrations\":")
            write(event.integrations)
        }
        if !event.properties.isEmpty {
            raw(",\"properties\":")
            write(event.properties)
        }
        if !event.traits.isEmpty {
            raw(",\"traits\":")
            write(event.traits)
        }
        raw(",\"context\":")
        write(event.context)
        raw("}")
        leave()
        return anonymousId
    }

    /// Up to the text of the message id.
    private mutating func writeHead(of kind: EventKind) {
        switch kind {
        case .identify: raw("{\"type\":\"identify\",\"messageId\":\"")
        case .track: raw("{\"type\":\"track\",\"messageId\":\"")
        case .screen: raw("{\"type\":\"screen\",\"messageId\":\"")
        case .group: raw("{\"type\":\"group\",\"messageId\":\"")
        case .alias: raw("{\"type\":\"alias\",\"messageId\":\"")
        }
    }

    private mutating func writeMember(_ prefix: StaticString, _ text: String?) {
        guard let text else { return }
        raw(prefix)
        write(text)
    }
}

/// Where an event comes from, as the specification names it. On the wire: `channel`.
public struct Channel: Sendable, Hashable {
    enum Name: Sendable { case mobile, server }

    let name: Name

    /// An app on a person's device; the default in apps.
    public static let mobile = Channel(name: .mobile)
    /// A service or a command-line tool; the default with the process source.
    public static let server = Channel(name: .server)
}
