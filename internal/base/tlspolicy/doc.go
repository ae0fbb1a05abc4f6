// Package tlspolicy restricts the TLS versions, cipher suites and curves of the control plane's own
// ports.
//
// Input: a [Policy] of names that users choose. Output: values of crypto/tls. An invalid name is an
// error of [Policy.Validate], never a weaker setting.
//
// Start with [Policy] in policy.go; compliance.go has the compliance policies.
package tlspolicy
