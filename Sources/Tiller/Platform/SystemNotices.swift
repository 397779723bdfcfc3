import Foundation

/// Tells that the system posted one of some notifications, on the thread that posts.
///
/// What Foundation returns for an observer can't be handed to another thread to end the observation there. So there is
/// one registration for the life of the process, and what comes and goes is a handler of ours.
final class SystemNotices: Sendable {
    /// That language, region or time zone changed.
    static let region = SystemNotices(
        [NSLocale.currentLocaleDidChangeNotification, .NSSystemTimeZoneDidChange], in: .default)

    private let handlers = ChangeHandlers()

    init(_ names: [Notification.Name], in center: NotificationCenter) {
        for name in names {
            _ = center.addObserver(forName: name, object: nil, queue: nil) { [handlers] _ in handlers.callAll() }
        }
    }

    /// - Returns: Ends the observation when cancelled or released.
    func observe(_ handler: @escaping @Sendable () -> Void) -> CancellationToken { handlers.add(handler) }
}
