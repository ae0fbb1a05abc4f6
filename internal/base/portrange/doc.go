// Package portrange parses the ports and ranges of ports that users select for the capture of
// traffic, in flags and in annotations of pods.
//
// [Parse] accepts the syntax of both iptables and nft. Invariant: a Range that it returns does not
// end before it begins.
package portrange
