extension JSONObject {
    /// An object of values of any type, its keys sorted.
    ///
    /// What becomes of each value is said at `JSONValue.init(any:)`; the object
    /// itself is the first of the 200 levels. A `[String: Any]` literal that
    /// repeats a key traps in the standard library before it gets here; in a
    /// `JSONObject` literal the first wins.
    ///
    /// Throws nothing, and can be called from any thread. Values are copied
    /// during the call: changing them later changes nothing here.
    ///
    /// - Parameter values: What has no JSON form becomes `null`, the rest is kept.
    public init(_ values: [String: Any]) {
        var conversion = JSONConversion()
        self = conversion.object(values)
    }
}

extension JSONValue {
    /// A value of any type as JSON.
    ///
    /// Numbers:
    ///
    /// - `Bool`: `true` or `false`.
    /// - All integer types: a whole number with all its digits.
    /// - `Double`, `Float`, `CGFloat` and other floating-point types: the number
    ///   that their shortest text names, so that a `Float` of 1.1 is `1.1`.
    ///   NaN and infinity have no JSON form.
    /// - `Decimal`: a number with all its digits. NaN has no JSON form.
    ///
    /// Texts:
    ///
    /// - `String`, `Substring`, `Character`: the text.
    /// - `Date`: `2026-03-05T13:00:05.005Z`, in UTC with milliseconds. An
    ///   instant outside the years 0000 to 9999 has no JSON form.
    /// - `URL`: its absolute string.
    /// - `UUID`: its text in lower case.
    /// - `Data`: base64.
    ///
    /// What holds other values:
    ///
    /// - Optionals and `AnyHashable`: what is in them; `nil` and `NSNull` are
    ///   `null`.
    /// - Arrays, their slices, `ContiguousArray`, reversed arrays: a list.
    /// - `Set`, the keys and the values of a dictionary: a list, sorted by the
    ///   elements' JSON text.
    /// - Dictionaries keyed by `String`, `Substring`, or `AnyHashable` with such
    ///   a text in it: an object, keys sorted. With any other key the whole
    ///   dictionary has no JSON form.
    /// - `KeyValuePairs` with such keys: an object in their order; of equal keys
    ///   the first wins.
    /// - `JSONValue`, `JSONObject`: what they are.
    /// - `RawRepresentable`, so enums and option sets: the raw value.
    /// - Any other `Encodable`: what it encodes, every part by these rules. If
    ///   `encode(to:)` throws, the value has no JSON form; a part that throws
    ///   costs that part, and the `encode(to:)` around it does not see the error.
    ///
    /// Foundation's reference types (`NSString`, `NSNumber`, `NSDecimalNumber`,
    /// `NSDate`, `NSURL`, `NSUUID`, `NSData`, `NSArray`, `NSOrderedSet`,
    /// `NSDictionary`, `NSSet`) become what their Swift counterparts become; a
    /// number made of a boolean is a boolean.
    ///
    /// Everything else (closures, tuples, classes that are not `Encodable`, lazy
    /// collections) has no JSON form.
    ///
    /// A value without a JSON form becomes `null`, never more than that one value,
    /// and is a problem that the recording calls report to the log: by the
    /// type's name, without the value. This initializer reports nothing.
    ///
    /// Objects and lists nest 200 levels deep, counted from this value. What
    /// lies deeper has no JSON form, and neither has an object within itself.
    ///
    /// Throws nothing, and can be called from any thread; the `encode(to:)` and
    /// `rawValue` of the values' types run on the calling one. Values are
    /// copied during the call, the contents of mutable Foundation objects too:
    /// changing them later changes nothing here. Changing one *during* the call
    /// from another thread is a race of the caller's.
    ///
    /// - Parameter value: What has no JSON form becomes `null`.
    public init(any value: Any) {
        var conversion = JSONConversion()
        self = conversion.value(value)
    }
}
