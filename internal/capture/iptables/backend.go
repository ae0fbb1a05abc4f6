package iptables

import (
	"context"
	"errors"
	"fmt"
)

// backend is a way to put rules into the kernel.
type backend interface {
	// name is for people.
	name() string
	// present reports whether rules of ours are there. It changes nothing.
	present(ctx context.Context) (bool, error)
	// check returns ErrDrift if want is not there as it should be. It changes nothing.
	check(ctx context.Context, want Ruleset) error
	// replace makes want the rules of ours that are there. Rules that differ are ErrDrift unless o allows to replace them.
	replace(ctx context.Context, want Ruleset, o Options) error
	// remove leaves no rule of ours. Those of known are ours even where nothing else tells.
	remove(ctx context.Context, known Ruleset) error
}

var (
	_ backend = (*xtables)(nil)
	_ backend = (*native)(nil)
)

// selectBackends returns the backend to use for rules, and the others that may hold rules of an earlier run. A backend that the
// options force is used or is an error. Otherwise it is the iptables programs, and nftables over netlink where there are
// none that work.
func selectBackends(ctx context.Context, want Ruleset, o Options, env Environment) (backend, []backend, error) {
	netlink := &native{open: env.Netlink, log: env.Log}
	found, err := findXtables(ctx, o, env)
	if o.NativeNftables {
		return netlink, backendsOf(found, nil), nil
	}
	var chosen *xtables
	if err == nil {
		chosen, err = selectXtables(ctx, found, want)
	}
	if err == nil {
		return chosen, append(backendsOf(found, chosen), netlink), nil
	}
	if o.Variant != AnyVariant {
		return nil, nil, err
	}
	switch _, netlinkErr := netlink.present(ctx); {
	case errors.Is(netlinkErr, ErrNotPermitted):
		return nil, nil, netlinkErr // nothing else is known of the programs, whatever they said
	case netlinkErr != nil:
		return nil, nil, fmt.Errorf("no backend can be used: %w; and %s: %w", err, netlink.name(), netlinkErr)
	}
	env.Log.Info("no iptables programs can be used, so nftables over netlink is", "reason", err)
	return netlink, backendsOf(found, nil), nil
}

func backendsOf(all []*xtables, but *xtables) []backend {
	var list []backend
	for _, x := range all {
		if x != but {
			list = append(list, x)
		}
	}
	return list
}
