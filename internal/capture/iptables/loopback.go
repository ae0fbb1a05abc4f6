package iptables

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LoopbackAddresses changes the addresses of lo in the network namespace of the calling thread.
type LoopbackAddresses interface {
	// Add adds the address. It reports whether the address was not there before.
	Add(netip.Prefix) (bool, error)
	// Remove removes the address. It does nothing if the address is not there.
	Remove(netip.Prefix) error
}

// addPassthroughSource adds ::6 to lo, so that Envoy can bind to it. IPv4 does not need this: all
// of 127.0.0.0/8 is local, but of IPv6 only ::1. It returns a function that undoes the change,
// which does nothing if the address existed before, and only logs a failure.
func addPassthroughSource(env Environment) (undo func(), err error) {
	source := passthroughSource(IPv6)
	added, err := env.Loopback.Add(source)
	if err != nil {
		return nil, fmt.Errorf("add %v to %s, for Envoy's inbound connections: %w", source, loopbackInterface, err)
	}
	return func() {
		if !added {
			return
		}
		if err := env.Loopback.Remove(source); err != nil {
			env.Log.Warn("cannot undo a change, continuing",
				"address", source.String(), "interface", loopbackInterface, "error", err)
		}
	}, nil
}

// removePassthroughSource removes ::6 from lo. A missing address is no error.
func removePassthroughSource(env Environment) error {
	source := passthroughSource(IPv6)
	if err := env.Loopback.Remove(source); err != nil {
		return fmt.Errorf("remove %v from %s: %w", source, loopbackInterface, err)
	}
	return nil
}

// systemLoopback uses rtnetlink.
type systemLoopback struct{}

var _ LoopbackAddresses = systemLoopback{}

// Add adds the address to lo, and reports whether it was not there before. A missing permission is
// ErrNotPermitted.
func (systemLoopback) Add(p netip.Prefix) (bool, error) {
	err := changeLoopback(p, netlink.AddrAdd)
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return err == nil, wrapPermission(err)
}

// Remove removes the address from lo. It does nothing if the address is not there or the kernel has
// no IPv6.
func (systemLoopback) Remove(p netip.Prefix) error {
	err := changeLoopback(p, netlink.AddrDel)
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP):
		return nil // the address does not exist, or the kernel has no IPv6
	}
	return wrapPermission(err)
}

// changeLoopback calls change with the interface lo and the address p, and returns its error
// unchanged. An IPv6 address has the flag that skips the check for duplicates. If lo is not found,
// it returns an error without a call.
func changeLoopback(p netip.Prefix, change func(netlink.Link, *netlink.Addr) error) error {
	link, err := netlink.LinkByName(loopbackInterface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", loopbackInterface, err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		// Otherwise the address is tentative for a while, and cannot be bound to.
		addr.Flags = unix.IFA_F_NODAD
	}
	return change(link, addr)
}
