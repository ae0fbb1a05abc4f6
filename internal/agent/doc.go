// Package agent is pilot-agent: it makes an Envoy's bootstrap, starts it, says whether it is ready, and ends it gracefully.
//
// In: environment variables, files and flags. Out: one supervised Envoy and the status port 15020.
// Law: one Envoy for the agent's whole life. When it ends, the agent ends with its status; when the agent is told to end, it
// drains Envoy first.
//
// Start with [Run] in agent.go, then prepare.go (what Envoy is started with) and shutdown.go. The parts have packages of
// their own: environment, proxyconfig and node (who we are), bootstrap (the file), envoy (the process), status (the port),
// command (the command line).
package agent
