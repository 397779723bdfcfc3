/// What `tiller store` is asked for.
struct StoreOptions: Equatable {
    /// Why the arguments can't be understood.
    struct Problem: Error, Equatable {
        let reason: String
    }

    let folder: String
    private(set) var checks = false
    private(set) var isJSON = false
    /// Where the bundle goes; `nil`: none is made.
    private(set) var bundle: String?

    init(_ arguments: [String]) throws(Problem) {
        var folder: String?
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--check": checks = true
            case "--json": isJSON = true
            case "--bundle":
                guard let value = rest.popFirst(), !value.isEmpty, !value.hasPrefix("--") else {
                    throw Problem(reason: "--bundle needs a file")
                }
                guard bundle == nil else { throw Problem(reason: "--bundle is given twice") }
                bundle = value
            case let option where option.hasPrefix("-"): throw Problem(reason: "'\(option)' is not an option")
            default:
                guard folder == nil else { throw Problem(reason: "more than one folder is given") }
                folder = argument
            }
        }
        guard let folder, !folder.isEmpty else { throw Problem(reason: "no folder is given") }
        guard bundle == nil || !checks && !isJSON else {
            throw Problem(reason: "--bundle goes with neither --check nor --json: it has both")
        }
        self.folder = folder
    }
}
