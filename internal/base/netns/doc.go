// Package netns runs processes in network namespaces of this machine: nodes that a bridge connects,
// processes in them, and requests from them.
//
// # What it does
//
// [Run] executes the calling program again in a sandbox: new PID, mount and network namespaces, and
// a new user namespace if the program does not run as root. In a sandbox, [New] makes a [Network]
// (a bridge), [Network.AddNode] a [Node] (a namespace with addresses, a host name, an /etc/hosts
// and optionally an /etc/resolv.conf of its own), and [Node.Start] a [Process] in it.
//
//	the program                   PID 1 of the sandbox          the program again
//	(forwards signals,   clone    (mounts, then reaps   fork    (main runs here: makes networks,
//	 waits for status)  ------->   orphans)            ------>   nodes, processes)
//
// The input is a function and the addresses of its nodes, the output its exit status.
//
// # Invariants
//
// No interface, route, rule, port, named namespace or mount of the host is used or changed, so
// several sandboxes can run at the same time. The kernel removes everything: each process of a
// sandbox is in its PID namespace and is killed with PID 1; PID 1 is killed with the outer program;
// network namespaces are held by descriptors and processes only. A SIGKILL of any of the three
// leaves only files. [Network.Close] does the same in order, for a program that continues.
//
// The program's goroutines stay in the sandbox's empty network namespace; [Node.Do], [Node.Dial]
// and [Node.Listen] use the namespace of a node. This package reads two environment variables
// itself, because a test binary has no flags for them: the stage of a program that was executed
// again, and CI (see [Require]).
//
// # Where to start reading
//
// sandbox.go (the three stages), network.go, node.go, process.go; gate.go contains the functions
// that a test package calls.
package netns
