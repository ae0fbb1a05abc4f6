// Package plugin generates the configuration of users' Wasm modules and Lua scripts (WasmPlugin,
// TrafficExtension).
//
// The input is the plugins that apply to a proxy. The outputs are the places of plugins among the
// filters, for listeners, and the extension configs of the plugins, which proxies subscribe to by
// name (ECDS). Listeners depend only on the places. An edit of a plugin's code or configuration
// changes no listener, so it drains no connections. Modules are downloaded by the agent beside the
// proxy, never by the control plane.
//
// Start with [Of] in place.go; extension.go generates the extension configs.
package plugin
