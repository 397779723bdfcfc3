import Testing

@testable import Tiller

/// Which process gets which source by default.
@Suite struct PlatformLifecycleSourceTests {
    private typealias Bundle = PlatformLifecycleSource.MainBundle

    private func bundle(
        _ folder: String, executable: String? = "App", process: String? = "App", isBackgroundOnly: Bool = false
    ) -> Bundle {
        Bundle(folder: folder, executable: executable, process: process, isBackgroundOnly: isBackgroundOnly)
    }

    @Test func aProcessWithoutAUserInterfaceGetsTheProcesssOwn() {
        #expect(PlatformLifecycleSource.automatic() is ProcessLifecycleSource)
        #expect(!Bundle.present.isApp)
    }

    @Test func appsAndTheirExtensionsAreApps() {
        #expect(bundle("Mail.app").isApp)
        #expect(bundle("Share.appex").isApp)
        #expect(bundle("Mail.app", executable: nil).isApp)
        #expect(bundle("Mail.app", process: nil).isApp)
    }

    @Test(arguments: ["bin", "debug", "", "MyApp.application", "Mail.app.backup", "Tools.xpc", "Some.framework", "app"])
    func otherFoldersAreNone(folder: String) { #expect(!bundle(folder).isApp) }

    @Test func aHelperToolInsideAnAppAndADaemonAreNone() {
        #expect(!bundle("Mail.app", process: "helper").isApp)
        #expect(!bundle("Mail.app", isBackgroundOnly: true).isApp)
    }

    @Test func aPropertyListSaysTrueInSeveralWays() {
        for value in [true, 1, "1", "YES", "true"] as [Any] { #expect(Bundle.isTrue(value)) }
        for value in [false, 0, "0", "NO", "", [1]] as [Any] { #expect(!Bundle.isTrue(value)) }
        #expect(!Bundle.isTrue(nil))
    }
}
