// Package vm tests how virtual machines join a mesh, as their owners do it: with the files of
// pilotctl workload entry configure at the paths of Istio's documentation, istio-iptables and
// pilot-agent. The machines are network namespaces, everything in them is real.
//
// TestPackages runs the commands of docs/VIRTUAL-MACHINES.md on freshly installed Debian systems with
// the deb packages of a release, and again with its rpm packages (`make release-vm`).
//
// It is shown twice: on a mesh without Kubernetes, and with an API server.
package vm
