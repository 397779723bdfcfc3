import Foundation

/// Foundation's reference types, as they come out of Objective-C and of `JSONSerialization`.
extension JSONConversion {
    /// `nil` for an object that is none of them.
    mutating func reference(_ object: AnyObject) -> JSONValue? {
        switch object {
        case let value as NSArray: return within(value) { $0.list(value.elements) }
        case let value as NSDictionary: return within(value) { $0.dictionary(value.members, type(of: value)) }
        case let value as NSSet: return within(value) { $0.sortedList(value.elements) }
        case let value as NSOrderedSet: return within(value) { $0.list(value.array) }
        default: return leaf(object)
        }
    }

    /// What holds no other values.
    private mutating func leaf(_ object: AnyObject) -> JSONValue? {
        switch object {
        case let value as NSString: return .string(String(value))
        case let value as NSNumber: return number(value)
        case is NSNull: return .null
        case let value as NSDate: return text(Date(timeIntervalSince1970: value.timeIntervalSince1970))
        case let value as NSURL: return text(value)
        case let value as NSUUID: return .string(value.uuidString.lowercased())
        case let value as NSData: return .string(value.base64EncodedString(options: []))
        default: return nil
        }
    }

    private func text(_ url: NSURL) -> JSONValue {
        let text: String? = url.absoluteString  // optional on Apple, not on Linux
        return text.map { .string($0) } ?? .null
    }

    private mutating func number(_ number: NSNumber) -> JSONValue {
        // The booleans are two objects of their own; by its type code alone an `Int8` is one, too.
        if number === NSNumber(value: true) { return .bool(true) }
        if number === NSNumber(value: false) { return .bool(false) }
        if let number = number as? NSDecimalNumber { return finite(number.decimalValue, NSDecimalNumber.self) }
        switch String(cString: number.objCType) {
        case "d": return finite(number.doubleValue, NSNumber.self)
        case "f": return shortest(number.floatValue, NSNumber.self)
        case "Q": return .uint(number.uint64Value)
        default: return .int(number.int64Value)
        }
    }
}

// On Linux every direct way to an element that is a container copies it into a Swift one, recursively, which does not end
// for a container in itself (`__SwiftValue.fetch` in swift-corelibs-foundation). These ways see the element as it is.
// They are taken for Linux's concrete classes only; Apple's have other names.

extension NSArray {
    fileprivate var elements: [Any] {
        guard type(of: self) == NSArray.self || type(of: self) == NSMutableArray.self else { return Array(self) }
        return Mirror(reflecting: self).children.map { unboxed($0.value) }
    }
}

extension NSDictionary {
    fileprivate var members: [(key: Any, value: Any)] {
        guard type(of: self) == NSDictionary.self || type(of: self) == NSMutableDictionary.self else {
            return map { ($0.key, $0.value) }
        }
        return zip(allKeys, allValues).map { ($0, unboxed($1)) }
    }
}

extension NSSet {
    fileprivate var elements: [Any] {
        guard type(of: self) == NSSet.self || type(of: self) == NSMutableSet.self else { return allObjects }
        return Mirror(reflecting: self).children.map { unboxed($0.value) }
    }
}

/// A container as it is; of anything else, the Swift value in Foundation's box.
private func unboxed(_ element: Any) -> Any {
    let isContainer = element is NSArray || element is NSDictionary || element is NSSet
    return isContainer ? element : NSArray(object: element).object(at: 0)
}
