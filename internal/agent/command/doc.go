// Package command is the command line of pilot-agent: proxy, request, wait, istio-iptables, version.
//
// In: arguments and environment variables, both given by main. Out: a cobra command tree. Law: the environment is read from
// what main gives, never from the process.
//
// Start with [New] in root.go; proxy.go turns everything a user can set into agent.Options.
package command
