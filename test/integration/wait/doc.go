// Package wait tests pilotctl wait and why against a control plane with files: proxies that answer
// late, reject configuration, connect and leave.
package wait
