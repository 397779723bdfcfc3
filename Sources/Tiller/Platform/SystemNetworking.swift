import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// What is peculiar to this platform's URL client.
enum SystemNetworking {
    #if canImport(Darwin)
    static let preferredBodyBytes: Int? = nil

    static func registerExitHandler() {}

    /// Whether the server's certificate was not accepted.
    static func isCertificateFailure(_ error: NSError) -> Bool {
        [
            NSURLErrorServerCertificateUntrusted, NSURLErrorServerCertificateHasBadDate,
            NSURLErrorServerCertificateHasUnknownRoot, NSURLErrorServerCertificateNotYetValid,
        ].contains(error.code)
    }
    #else
    /// Whether the server's certificate was not accepted: the client has no code for it, and the words of libcurl.
    static func isCertificateFailure(_ error: NSError) -> Bool {
        error.code == NSURLErrorUnknown && error.localizedDescription.lowercased().contains("certificate")
    }

    /// Above 64 KB `URLSession` does not stop watching whether its socket can be written to, and it always can.
    static let preferredBodyBytes: Int? = 60_000

    /// Lets OpenSSL, where the client uses it, register its exit handler now and not in the middle of the first request.
    ///
    /// The handler frees what a request that is just beginning still uses, and handlers run in the reverse order of their
    /// registration: one that is registered after this runs before it.
    static func registerExitHandler() {
        typealias Initialize = @convention(c) (UInt64, OpaquePointer?) -> Int32
        guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "OPENSSL_init_crypto") else { return }
        // The C declaration of OpenSSL 1.1 and later. Without any option it would do nothing; this one costs least, and turns
        // nothing on or off for the rest of the process.
        let initAsync: UInt64 = 0x100  // OPENSSL_INIT_ASYNC
        _ = unsafeBitCast(symbol, to: Initialize.self)(initAsync, nil)
    }
    #endif
}
