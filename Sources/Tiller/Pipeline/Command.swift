/// Anything but an event that takes its place in the order of calls.
///
/// A subject declares its own (a change of the app's state, say) and its
/// capturing plugin answers it in `CapturingPlugin.apply`; every other
/// capturing plugin sees it too and may ignore it.
public protocol Command: Sendable {}

/// A capturing plugin's own wake-up, asked for by `Section.wake(after:)`. Only that plugin sees it.
public struct Wake: Command {
    init() {}
}

/// Everything that is stored goes: see `Analytics.erase()`. A `ResetOptions` with all entries comes before it, in the same
/// section. A capturing plugin that is to remember something all the same saves it here.
public struct Erase: Command {
    init() {}
}

/// The last command of an instance.
public struct Shutdown: Command {
    init() {}
}
