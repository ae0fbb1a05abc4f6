package iptables

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
)

// namedNamespaces is the directory of the namespaces of `ip netns`.
const namedNamespaces = "/run/netns"

// inNamespace calls f on a thread in the network namespace with that path, or that name below
// /run/netns. With an empty name it calls f directly. Sockets and programs that f itself opens and
// starts are in the namespace; goroutines that f starts are not. It returns the error of f, or an
// error without calling f if the namespace cannot be entered.
func inNamespace(name string, f func() error) error {
	if name == "" {
		return f()
	}
	target, err := netns.GetFromPath(namespacePath(name))
	if err != nil {
		return fmt.Errorf("open network namespace %q (--network-namespace): %w", name, err)
	}
	defer target.Close()

	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread stays in the other namespace and ends with this goroutine.
		runtime.LockOSThread()
		if err := netns.Set(target); err != nil {
			done <- fmt.Errorf("enter network namespace %q (--network-namespace): %w", name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// namespacePath returns the path of a namespace: name itself if it has a slash, otherwise the file
// of that name below /run/netns.
func namespacePath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return filepath.Join(namedNamespaces, name)
}
