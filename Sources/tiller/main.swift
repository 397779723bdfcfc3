import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

exit(await TillerCommand.run(Array(CommandLine.arguments.dropFirst())))
