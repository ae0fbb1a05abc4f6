// Package routetest answers "where does this request go?" from a RouteConfiguration, as Envoy would.
//
// In: a RouteConfiguration and a [Request]. Out: the [Answer]: the virtual host, the route in it, and what that does.
// Law: pure; knows the matchers that package route generates, and says so of any other instead of guessing.
//
// Start with [Route].
package routetest
