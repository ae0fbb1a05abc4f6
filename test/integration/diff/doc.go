// Package diff tests pilotctl diff against a running control plane: what it reports is what the
// proxies are sent when the change is made, and asking changes nothing.
package diff
