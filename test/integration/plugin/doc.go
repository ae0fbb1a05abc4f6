// Package plugin has a real gateway run modules that WasmPlugins and scripts that TrafficExtensions
// name: control plane, agent and Envoy.
//
// Start with TestWasmPlugin in plugin_test.go; registry_test.go has a registry that asks for a
// password. Package sidecars is about sidecars.
package plugin
