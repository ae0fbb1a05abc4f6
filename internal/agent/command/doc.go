// Package command is the command line of pilot-agent: proxy, request, wait, istio-iptables,
// version.
//
// [New] returns a cobra command tree. Arguments and environment variables are passed in by main;
// the package never reads the process's environment.
//
// Start with [New] in root.go. proxy.go turns all user settings into agent.Options.
package command
