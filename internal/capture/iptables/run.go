package iptables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

var (
	// ErrNotPermitted is wrapped by errors caused by missing privileges.
	ErrNotPermitted = errors.New("not permitted: changing the rules of a network namespace " +
		"requires CAP_NET_ADMIN in it (be root, or root of your own user namespace: unshare -Urn)")
	// ErrDrift is wrapped by errors about rules of an earlier run that differ from the planned
	// ones.
	ErrDrift = errors.New("rules of an earlier run differ (--reconcile replaces them, --cleanup-only removes them)")
	// ErrValidation is wrapped by the error of --run-validation if connections are not captured.
	ErrValidation = errors.New("validation failed: " +
		"connections are not captured, the workload is not ready for the mesh")
)

// Run validates the options and then applies, prints, validates or removes rules as they request,
// in o.NetworkNamespace. Each backend's transaction applies all its rules or none. After an error
// of the selected backend the network namespace has its previous rules. After a failed validation,
// and if rules of another backend cannot be removed, the new rules stay.
func Run(ctx context.Context, o Options, env Environment) error {
	env.Log.Info("istio-iptables: effective configuration", "options", o)
	if err := o.Validate(); err != nil {
		return err
	}
	return inNamespace(o.NetworkNamespace, func() error {
		if o.CleanupOnly {
			return cleanUp(ctx, o, env)
		}
		return applyOrPrint(ctx, o, env)
	})
}

// Check returns nil if the planned rules are applied, and an error that wraps ErrDrift if they are
// not, or rules of another backend exist. It changes nothing. For rules applied over netlink it
// only checks the number of tables.
func Check(ctx context.Context, o Options, env Environment) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return inNamespace(o.NetworkNamespace, func() error {
		o, _, err := resolveOptions(o, env)
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
		if stale := holdingRules(ctx, others, env); len(stale) > 0 {
			return fmt.Errorf("found rules of %s beside those of %s: %w", stale[0].name(), chosen.name(), ErrDrift)
		}
		return chosen.check(ctx, want)
	})
}

// resolveOptions returns o with IPv6 and the name servers set by the network namespace, and the
// pod's addresses. It returns an error if there is no address, or addresses or name servers cannot
// be read.
func resolveOptions(o Options, env Environment) (Options, []netip.Addr, error) {
	addrs, err := env.Addresses()
	if err != nil {
		return o, nil, err
	}
	addrs = filterPodAddresses(addrs)
	if o.IPv6, err = wantIPv6(addrs, o.DualStack); err != nil {
		return o, nil, err
	}
	err = findNameservers(&o, env)
	return o, addrs, err
}

// applyOrPrint applies the rules, or only prints them in a dry run, and validates the capture if
// requested. Unless ApplyRules is set nothing is applied. A dry run does not validate.
func applyOrPrint(ctx context.Context, o Options, env Environment) error {
	o, addrs, err := resolveOptions(o, env)
	if err != nil {
		return err
	}
	want, err := Plan(o)
	if err != nil {
		return err
	}
	if o.DryRun {
		return printRules(want, o, env)
	}
	if !o.ApplyRules {
		env.Log.Info("not applying rules (--skip-rule-apply)")
	} else if err := applyRules(ctx, want, o, env); err != nil {
		return err
	}
	if o.RunValidation {
		return validateCapture(ctx, o, addrs, env)
	}
	return nil
}

// printRules writes the rules to env.Out: as nft, commands or, by default, input for
// iptables-restore. NativeNftables has precedence over AsCommands.
func printRules(want Ruleset, o Options, env Environment) error {
	render := Render
	switch {
	case o.NativeNftables:
		render = RenderNft
	case o.AsCommands:
		render = RenderCommands
	}
	text := render(want)
	if _, err := io.WriteString(env.Out, text); err != nil {
		return fmt.Errorf("print rules: %w", err)
	}
	return nil
}

// applyRules applies the rules by the selected backend, and removes the rules of other backends. It
// fails if checkMapped does or, unless Reconcile or ForceApply is set, there are different rules or
// rules of another backend. With one of both it also removes routing that is not wanted. If the
// backend fails, addresses and routing are restored.
func applyRules(ctx context.Context, want Ruleset, o Options, env Environment) error {
	if err := checkMapped(o, env); err != nil {
		return err
	}
	chosen, others, err := selectBackends(ctx, want, o, env)
	if err != nil {
		return err
	}
	stale := holdingRules(ctx, others, env)
	if len(stale) > 0 && !o.Reconcile && !o.ForceApply {
		return fmt.Errorf("apply rules with %s: found rules of %s: %w", chosen.name(), stale[0].name(), ErrDrift)
	}
	undo, err := prepareSystem(want, o, env)
	if err != nil {
		return err
	}
	if err := chosen.replace(ctx, want, o); err != nil {
		undo()
		return fmt.Errorf("apply rules with %s: %w", chosen.name(), err)
	}
	for _, other := range stale {
		if err := other.remove(ctx, want); err != nil {
			return fmt.Errorf("remove rules that an earlier run applied with %s: %w", other.name(), err)
		}
	}
	if o.Reconcile || o.ForceApply {
		return removeDiverts(o, want.Diverts, env)
	}
	return nil
}

// prepareSystem adds the addresses, for IPv6, and the routing that the rules require. It returns a
// function that undoes the change. If it fails, nothing is changed.
func prepareSystem(want Ruleset, o Options, env Environment) (undo func(), err error) {
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

// holdingRules returns the backends that hold rules of ours. A backend that cannot be read is
// assumed to hold none, which is logged at level debug.
func holdingRules(ctx context.Context, backends []backend, env Environment) []backend {
	var with []backend
	for _, b := range backends {
		present, err := b.present(ctx)
		if err != nil {
			env.Log.Debug("cannot read rules, assuming none", "backend", b.name(), "error", err)
		}
		if present {
			with = append(with, b)
		}
	}
	return with
}

// cleanUp removes our rules from every backend, whichever applied them, the routing with o's mark
// and table, and passthroughSource from lo. In a dry run, or unless ApplyRules is set, it only
// logs. It stops at the first error.
func cleanUp(ctx context.Context, o Options, env Environment) error {
	if o.DryRun || !o.ApplyRules {
		env.Log.Info("not removing rules (--dry-run or --skip-rule-apply)")
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
	// Removal does not depend on the pod's families, so missing ip6tables programs are not an
	// error.
	o.IPv6 = false
	least := Ruleset{Tables: []Table{{Family: IPv4, Name: tableNAT}}}
	chosen, others, err := selectBackends(ctx, least, o, env)
	if err != nil {
		return err
	}
	if err := chosen.remove(ctx, known); err != nil {
		return fmt.Errorf("remove rules of %s: %w", chosen.name(), err)
	}
	for _, other := range holdingRules(ctx, others, env) {
		if err := other.remove(ctx, known); err != nil {
			return fmt.Errorf("remove rules of %s: %w", other.name(), err)
		}
	}
	if err := removeDiverts(o, nil, env); err != nil {
		return err
	}
	return removePassthroughSource(env)
}

// checkMapped returns an error if this user namespace does not map a user or group ID of the proxy.
// The kernel would reject the iptables rules with EINVAL, and the nftables rules would send the
// proxy's traffic back to it. It returns nil if ProxyMark is set, which identifies the proxy
// instead.
func checkMapped(o Options, env Environment) error {
	if o.ProxyMark != 0 {
		return nil
	}
	for _, id := range o.ProxyUIDs {
		if !env.UIDMapped(id) {
			return fmt.Errorf("--proxy-uid %d: this user namespace does not map the uid, "+
				"so it cannot identify the proxy; use --proxy-mark", id)
		}
	}
	for _, id := range o.ProxyGIDs {
		if !env.GIDMapped(id) {
			return fmt.Errorf("--proxy-gid %d: this user namespace does not map the gid, "+
				"so it cannot identify the proxy; use --proxy-mark", id)
		}
	}
	return nil
}
