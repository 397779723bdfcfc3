import Foundation

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

StandardDescriptors.occupy()  // before anything is opened
exit(await TillerCommand.run(Array(CommandLine.arguments.dropFirst())))
