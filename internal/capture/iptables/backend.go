package iptables

import (
	"context"
	"errors"
	"fmt"
)

// backend applies rules to the kernel.
type backend interface {
	// name returns the backend's name for logs and errors.
	name() string
	// present reports whether the kernel has rules of ours. It changes nothing.
	present(ctx context.Context) (bool, error)
	// check returns ErrDrift if the rules differ from want. It changes nothing.
	check(ctx context.Context, want Ruleset) error
	// replace replaces our rules by want. It returns ErrDrift if different rules exist and o does
	// not allow replacing them.
	replace(ctx context.Context, want Ruleset, o Options) error
	// remove removes all our rules. Rules in known are recognized as ours even outside of our
	// chains.
	remove(ctx context.Context, known Ruleset) error
}

var (
	_ backend = (*xtables)(nil)
	_ backend = (*native)(nil)
)

// selectBackends returns the backend to use for want, and all other usable backends, which may hold
// rules of an earlier run. NativeNftables selects nftables over netlink, unchecked. Otherwise the
// first usable iptables programs are selected, or netlink if there are none and o.Variant is
// AnyVariant. If netlink is not usable either, both errors are returned, or only ErrNotPermitted if
// netlink lacks privileges.
func selectBackends(ctx context.Context, want Ruleset, o Options, env Environment) (backend, []backend, error) {
	netlink := &native{open: env.Netlink, log: env.Log}
	found, err := findXtables(ctx, o, env)
	if o.NativeNftables {
		return netlink, backendsExcept(found, nil), nil
	}
	var chosen *xtables
	if err == nil {
		chosen, err = selectXtables(ctx, found, want)
	}
	if err == nil {
		return chosen, append(backendsExcept(found, chosen), netlink), nil
	}
	if o.Variant != AnyVariant {
		return nil, nil, err
	}
	switch _, netlinkErr := netlink.present(ctx); {
	case errors.Is(netlinkErr, ErrNotPermitted):
		return nil, nil, netlinkErr // without privileges the programs' errors are meaningless
	case netlinkErr != nil:
		return nil, nil, fmt.Errorf("no usable backend: %w; and %s: %w", err, netlink.name(), netlinkErr)
	}
	env.Log.Info("no usable iptables programs, using nftables over netlink", "reason", err)
	return netlink, backendsExcept(found, nil), nil
}

// backendsExcept returns all backends except but, in order. If but is nil, it returns all.
func backendsExcept(all []*xtables, but *xtables) []backend {
	var list []backend
	for _, x := range all {
		if x != but {
			list = append(list, x)
		}
	}
	return list
}
