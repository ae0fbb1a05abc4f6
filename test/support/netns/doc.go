// Package netns is a laboratory of network namespaces: nodes joined by a bridge, processes in them,
// requests from them.
//
// # What it is
//
// [Run] moves the calling program into a world of its own: new PID, mount and network namespaces,
// and a new user namespace when the program does not run as root. In a world, [New] makes a
// [Network] (a bridge), [Network.AddNode] a [Node] (a namespace with addresses, a host name and an
// /etc/hosts of its own), [Node.Start] a [Process] in it.
//
//	your program                  PID 1 of the world            your program again
//	(forwards signals,   clone    (mounts, then reaps   fork    (main runs here: makes networks,
//	 waits for status)  ------->   orphans)            ------>   nodes, processes)
//
// In: a function and the addresses that it wants. Out: its exit status; of the world nothing
// remains.
//
// # Law
//
// Nothing of the host is named or changed: no interface, route, rule, port, named namespace or
// mount. So worlds run side by side without knowing of each other, and nothing needs to be swept
// up. Clean-up is the kernel's work: every process of a world is in its PID namespace and dies with
// PID 1; PID 1 dies with the outer program; network namespaces are held by descriptors and
// processes only, and end with them. A SIGKILL of any of the three leaves nothing behind.
// [Network.Close] does the same in an orderly way for a program that goes on.
//
// The program's own goroutines stay in the world's empty network namespace; [Node.Do], [Node.Dial]
// and [Node.Listen] are how they reach into a node. This package reads two environment variables
// itself, because a test binary has no flags to carry them: the marker by which the re-executed
// program knows its stage, and CI (see [Require]).
//
// # Where to start reading
//
// world.go (the three stages), network.go, node.go, process.go; gate.go contains the functions that
// a test package calls.
package netns
