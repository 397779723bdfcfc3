#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The descriptors of standard input, output and error.
enum StandardDescriptors {
    /// Sees to it that the numbers 0 to 2 are taken. In a process that was started with one of them closed, the next file
    /// or socket would get its number, and what is meant for the terminal would go there.
    static func occupy() {
        var descriptor = open("/dev/null", O_RDWR)
        while (0...2).contains(descriptor) { descriptor = open("/dev/null", O_RDWR) }
        if descriptor > 2 { close(descriptor) }
    }
}
