package iptables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

var (
	// ErrNotPermitted is wrapped by the error for a lack of privilege.
	ErrNotPermitted = errors.New("not permitted: changing the rules of a network namespace needs CAP_NET_ADMIN in it (be root, or be root of an own user namespace: unshare -Urn)")
	// ErrDrift is wrapped by the error for rules of an earlier run that differ from the wanted ones.
	ErrDrift = errors.New("rules of an earlier run differ from the wanted ones (--reconcile replaces them, --cleanup-only removes them)")
	// ErrValidation is wrapped by the error of --run-validation if connections are not captured.
	ErrValidation = errors.New("validation failed: connections are not captured, the workload is not ready for the mesh")
)

// Run does what o asks for. The rules of each backend's transaction are all applied or none; after an error the network
// namespace has the rules that it had before.
func Run(ctx context.Context, o Options, env Environment) error {
	env.Log.Info("istio-iptables: effective configuration", "options", o)
	if err := o.Validate(); err != nil {
		return err
	}
	return inNamespace(o.NetworkNamespace, func() error {
		if o.CleanupOnly {
			return cleanUp(ctx, o, env)
		}
		return capture(ctx, o, env)
	})
}

// Check returns nil if the rules that o asks for are in force, and an error that wraps ErrDrift if they are not. It changes
// nothing. Of rules that were applied over netlink it only sees that there are any.
func Check(ctx context.Context, o Options, env Environment) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return inNamespace(o.NetworkNamespace, func() error {
		o, _, err := complete(o, env)
		if err != nil {
			return err
		}
		want, err := Plan(o)
		if err != nil {
			return err
		}
		chosen, others, err := selectBackends(ctx, want, o, env)
		if err != nil {
			return err
		}
		if stale := withRules(ctx, others, env); len(stale) > 0 {
			return fmt.Errorf("there are rules of %s beside those of %s: %w", stale[0].name(), chosen.name(), ErrDrift)
		}
		return chosen.check(ctx, want)
	})
}

// complete adds to o what the network namespace says, and returns the pod's addresses too.
func complete(o Options, env Environment) (Options, []netip.Addr, error) {
	addrs, err := env.Addresses()
	if err != nil {
		return o, nil, err
	}
	addrs = podAddresses(addrs)
	if o.IPv6, err = wantIPv6(addrs, o.DualStack); err != nil {
		return o, nil, err
	}
	err = findNameservers(&o, env)
	return o, addrs, err
}

func capture(ctx context.Context, o Options, env Environment) error {
	o, addrs, err := complete(o, env)
	if err != nil {
		return err
	}
	want, err := Plan(o)
	if err != nil {
		return err
	}
	if o.DryRun {
		return dryRun(want, o, env)
	}
	if o.SkipRuleApply {
		env.Log.Info("no rules are applied (--skip-rule-apply)")
	} else if err := apply(ctx, want, o, env); err != nil {
		return err
	}
	if o.RunValidation {
		return validateCapture(ctx, o, addrs, env)
	}
	return nil
}

func dryRun(want Ruleset, o Options, env Environment) error {
	render := Render
	switch {
	case o.NativeNftables:
		render = RenderNft
	case o.AsCommands:
		render = RenderCommands
	}
	text := render(want)
	if _, err := io.WriteString(env.Out, text); err != nil {
		return fmt.Errorf("printing the rules: %w", err)
	}
	return nil
}

func apply(ctx context.Context, want Ruleset, o Options, env Environment) error {
	if err := checkMapped(o, env); err != nil {
		return err
	}
	chosen, others, err := selectBackends(ctx, want, o, env)
	if err != nil {
		return err
	}
	stale := withRules(ctx, others, env)
	if len(stale) > 0 && !o.Reconcile && !o.ForceApply {
		return fmt.Errorf("applying the rules with %s: there are rules of %s: %w", chosen.name(), stale[0].name(), ErrDrift)
	}
	undo, err := prepare(want, o, env)
	if err != nil {
		return err
	}
	if err := chosen.replace(ctx, want, o); err != nil {
		undo()
		return fmt.Errorf("applying the rules with %s: %w", chosen.name(), err)
	}
	for _, other := range stale {
		if err := other.remove(ctx, want); err != nil {
			return fmt.Errorf("removing the rules that an earlier run applied with %s: %w", other.name(), err)
		}
	}
	if o.Reconcile || o.ForceApply {
		return removeDiverts(o, want.Diverts, env)
	}
	return nil
}

// prepare makes what the rules rely on and is no rule. It returns how to undo it.
func prepare(want Ruleset, o Options, env Environment) (undo func(), err error) {
	forget := func() {}
	if o.IPv6 {
		if forget, err = addPassthroughSource(env); err != nil {
			return nil, err
		}
	}
	undivert, err := addDiverts(want.Diverts, env)
	if err != nil {
		forget()
		return nil, err
	}
	return func() { undivert(); forget() }, nil
}

// withRules returns the backends that hold rules of ours. One that cannot be read cannot have been written either.
func withRules(ctx context.Context, backends []backend, env Environment) []backend {
	var with []backend
	for _, b := range backends {
		present, err := b.present(ctx)
		if err != nil {
			env.Log.Debug("cannot look for rules of an earlier run", "backend", b.name(), "error", err)
		}
		if present {
			with = append(with, b)
		}
	}
	return with
}

// cleanUp removes our rules from every backend that there is, whichever applied them.
func cleanUp(ctx context.Context, o Options, env Environment) error {
	if o.DryRun || o.SkipRuleApply {
		env.Log.Info("nothing is removed (--dry-run or --skip-rule-apply)")
		return nil
	}
	o.IPv6 = true
	if err := findNameservers(&o, env); err != nil {
		return err
	}
	known, err := Plan(o)
	if err != nil {
		return err
	}
	// Which families the pod has does not matter for what is removed, so neither does a lack of ip6tables.
	o.IPv6 = false
	least := Ruleset{Tables: []Table{{Family: IPv4, Name: tableNAT}}}
	chosen, others, err := selectBackends(ctx, least, o, env)
	if err != nil {
		return err
	}
	if err := chosen.remove(ctx, known); err != nil {
		return fmt.Errorf("removing the rules of %s: %w", chosen.name(), err)
	}
	for _, other := range withRules(ctx, others, env) {
		if err := other.remove(ctx, known); err != nil {
			return fmt.Errorf("removing the rules of %s: %w", other.name(), err)
		}
	}
	if err := removeDiverts(o, nil, env); err != nil {
		return err
	}
	return removePassthroughSource(env)
}

// checkMapped refuses ids that nobody can have. In a user namespace that maps few ids the iptables backend is refused by
// the kernel with EINVAL, and the nftables backend would load rules that send the proxy's traffic back to it.
func checkMapped(o Options, env Environment) error {
	if o.ProxyMark != 0 {
		return nil
	}
	for _, id := range o.ProxyUIDs {
		if !env.UIDMapped(id) {
			return fmt.Errorf("--proxy-uid %d: this user namespace does not map that uid, so the proxy cannot be known by it; use --proxy-mark", id)
		}
	}
	for _, id := range o.ProxyGIDs {
		if !env.GIDMapped(id) {
			return fmt.Errorf("--proxy-gid %d: this user namespace does not map that gid, so the proxy cannot be known by it; use --proxy-mark", id)
		}
	}
	return nil
}
