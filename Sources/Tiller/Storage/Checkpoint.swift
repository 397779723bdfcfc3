/// A place in the log: everything before it comes before everything after it.
struct LogPlace: Sendable, Comparable {
    var run = 0
    var segment = 0
    var offset = 0

    static func < (left: LogPlace, right: LogPlace) -> Bool {
        (left.run, left.segment, left.offset) < (right.run, right.segment, right.offset)
    }
}

/// The plugins' state, and the place in the log up to which it holds what was stored.
struct Checkpoint: Sendable {
    /// What the file says of itself; a newer format is left alone.
    private static let format: Int64 = 1

    /// A later version's: it is left alone.
    struct NewerFormat: Error, CustomStringConvertible {
        var description: String { "it has a newer format" }
    }

    var objects: JSONObject = [:]
    var place = LogPlace()
    /// The number of the event that comes next there, if that is known: a segment that ends at the place need not be read
    /// for it.
    var next: UInt64?
    /// Keys beside these, of a later version of the same format.
    private var others: JSONObject = [:]

    init() {}

    /// - Throws: `CheckedText.Damage`, `NewerFormat`, or what the JSON reader says.
    init(reading bytes: [UInt8]) throws {
        let value = try JSONValue(parsing: try CheckedText.json(of: bytes))
        guard let document = value.object, let format = document["format"]?.int else { throw CheckedText.Damage() }
        guard format <= Self.format else { throw NewerFormat() }
        guard let objects = document["state"]?.object, let covered = document["covers"]?.object,
            let run = covered["run"]?.int, let segment = covered["segment"]?.int, let offset = covered["offset"]?.int
        else { throw CheckedText.Damage() }
        self.objects = objects
        // A right checksum does not make a writer right: numbers must not be larger than there are in the base.
        let limit = Int64(1) << 47
        let numbers = [run, segment, offset].map { Int(clamping: min(max($0, 0), limit)) }
        place = LogPlace(run: numbers[0], segment: numbers[1], offset: numbers[2])
        next = covered["next"]?.int.flatMap { (0...limit).contains($0) ? UInt64($0) : nil }
        others = document
        for key in ["format", "state", "covers"] { others[key] = nil }
    }

    /// A checkpoint's bytes as they are when nobody writes them.
    ///
    /// An owner writes the file of the last checkpoint but one anew. Who had opened it before that finds another one under
    /// the name now.
    ///
    /// - Parameter read: Reads the file of that name; `nil` if there is none.
    static func bytes(_ read: () throws -> [UInt8]?) rethrows -> [UInt8]? {
        var bytes = try read()
        for _ in 1...3 {
            guard let found = bytes, (try? CheckedText.json(of: found)) == nil else { break }
            bytes = try read()
        }
        return bytes
    }

    var bytes: [UInt8] {
        var document = others
        document["format"] = .int(Self.format)
        document["state"] = .object(objects)
        var covers: JSONObject = [
            "run": .int(Int64(place.run)), "segment": .int(Int64(place.segment)), "offset": .int(Int64(place.offset)),
        ]
        // Within the place, for another version that writes a new place must not keep it.
        covers["next"] = next.map { .int(Int64(clamping: $0)) }
        document["covers"] = .object(covers)
        var writer = JSONWriter()
        writer.write(document)
        return CheckedText.bytes(of: writer.bytes)
    }
}

/// A line of JSON, and a line with its checksum, for damage may leave JSON that says other things.
enum CheckedText {
    struct Damage: Error, CustomStringConvertible {
        var description: String { "it is not what was written" }
    }

    static func bytes(of json: [UInt8]) -> [UInt8] {
        var writer = JSONWriter()
        let checksum = CRC32C.checksum(of: json)
        writer.raw("\n")
        writer.writeHex(checksum)
        writer.raw("\n")
        return json + writer.bytes
    }

    static func json(of bytes: [UInt8]) throws -> ArraySlice<UInt8> {
        let lineEnd = UInt8(ascii: "\n")
        guard bytes.count > 10, bytes.last == lineEnd, bytes[bytes.count - 10] == lineEnd,
            let checksum = UInt32(String(decoding: bytes.suffix(9).dropLast(), as: UTF8.self), radix: 16),
            CRC32C.checksum(of: bytes.dropLast(10)) == checksum
        else { throw Damage() }
        return bytes.dropLast(10)
    }
}
