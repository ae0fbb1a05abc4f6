// Package plugin has proxies run code of users: Wasm modules and Lua scripts (WasmPlugin, TrafficExtension).
//
// In: the plugins that hold for a proxy. Out: for listeners, where connection managers have which plugin; and the plugins themselves,
// which proxies ask for by name (ECDS).
// Law: pure. What listeners are told is only where a plugin is: its code and its configuration are no matter of theirs, so that an
// edit of those drains no connection. Modules are fetched by the agent beside the proxy, never from here.
//
// Start with [Of] in place.go; extension.go writes what is asked for by name.
package plugin
