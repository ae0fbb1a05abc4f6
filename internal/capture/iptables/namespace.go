package iptables

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
)

// namedNamespaces is where `ip netns` keeps its namespaces.
const namedNamespaces = "/run/netns"

// inNamespace calls f on a thread that is in the network namespace of that path, or of that name below /run/netns; with no
// name it calls f where it is. Sockets that f opens itself and programs that f starts itself are in the namespace;
// goroutines that f starts are not.
func inNamespace(name string, f func() error) error {
	if name == "" {
		return f()
	}
	target, err := netns.GetFromPath(namespacePath(name))
	if err != nil {
		return fmt.Errorf("opening the network namespace %q (--network-namespace): %w", name, err)
	}
	defer target.Close()

	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread, which is in another namespace for good, ends with this goroutine.
		runtime.LockOSThread()
		if err := netns.Set(target); err != nil {
			done <- fmt.Errorf("entering the network namespace %q (--network-namespace): %w", name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

func namespacePath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return filepath.Join(namedNamespaces, name)
}
