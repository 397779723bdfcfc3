@testable import Tiller
@testable import TillerTesting

/// What is read can be written and read again, and is the same; and both readers agree on what JSON is.
func fuzzJSON(_ input: [UInt8]) {
    let scanned = try? JSONScanner.value(in: input)
    if let scanned { check(scanned, in: input) }
    let value: JSONValue
    do {
        value = try JSONValue(parsing: input)
    } catch {
        check((0...input.count).contains(error.offset), "an error at \(error.offset) of \(input.count) bytes")
        check(scanned.map { $0.depth > JSONValue.maximumReadingDepth } ?? true, "only the scanner reads it: \(error)")
        return
    }
    check(scanned != nil, "the scanner does not read it")
    var first = JSONWriter()
    first.write(value)
    check(first.nonFiniteCount == 0, "a number that is none")
    check((first.tooDeepCount > 0) == ((scanned?.depth ?? 0) > JSONWriter.maximumDepth), "the depth")
    guard first.tooDeepCount == 0 else { return }
    guard let again = try? JSONValue(parsing: first.bytes) else { fatalError("what was written is not read") }
    var second = JSONWriter()
    second.write(again)
    check(first.bytes == second.bytes, "\(first.text) became \(second.text)")
    // Comparing takes the square of the number of members.
    if input.count < 1_024 { check(again == value, "not equal: \(first.text)") }
}

private func check(_ value: JSONScanner.Value, in input: [UInt8]) {
    check(0 <= value.range.lowerBound && value.range.upperBound <= input.count, "a value outside of the text")
    check(value.tooDeep.isEmpty == (value.depth <= JSONScanner.maximumDepth), "what is too deep")
    var end = value.range.lowerBound
    for range in value.tooDeep {
        check(range.lowerBound >= end && range.upperBound <= value.range.upperBound, "too deep, and elsewhere")
        end = range.upperBound
    }
    _ = try? JSONScanner.batch(in: input)
}
