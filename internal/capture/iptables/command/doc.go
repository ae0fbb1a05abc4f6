// Package command is the istio-iptables command: flags and environment variables -> [iptables.Options] -> [iptables.Run].
//
// Law: the flags are those of Istio's istio-iptables, with its names, defaults and meanings, two of its earlier releases, and one
// of ours, --proxy-mark.
// A value that cannot be honoured is one error that names its flag or variable, and nothing is changed. The environment is
// read only through the function that New is given.
//
// Every flag but --envoy-port can be set by the environment variable that has its name in capitals (--proxy-uid: PROXY_UID);
// the command line wins. A variable that is set but empty counts as not set.
//
// Start reading at New.
package command
