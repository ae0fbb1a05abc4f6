package iptables

import (
	"context"
	"fmt"
	"strings"
)

// findXtables returns the variants that are installed and can be read, of those that the options allow. If there are none the
// error says why.
func findXtables(ctx context.Context, o Options, env Environment) ([]*xtables, error) {
	variants := []Variant{LegacyVariant, NftVariant}
	if o.Variant != AnyVariant {
		variants = []Variant{o.Variant}
	}
	found, problem := openVariants(ctx, variants, o, env)
	if len(found) == 0 && o.Variant == AnyVariant {
		// Where there is one variant only, it may have no name but the plain one.
		plain, plainProblem := openVariants(ctx, []Variant{AnyVariant}, o, env)
		found, problem = plain, both(problem, plainProblem)
	}
	if len(found) == 0 {
		return nil, problem
	}
	return found, nil
}

func openVariants(ctx context.Context, variants []Variant, o Options, env Environment) (found []*xtables, problem error) {
	for _, v := range variants {
		x, err := openVariant(ctx, v, o, env)
		if err != nil {
			// Not even for a lack of privilege is this the end. In a network namespace that was made together with its
			// user namespace, the kernel lets nobody read which tables iptables-legacy has; iptables-nft works there.
			env.Log.Debug("cannot use a variant of iptables", "variant", toolName(IPv4, v), "error", err)
			problem = both(problem, err)
			continue
		}
		found = append(found, x)
	}
	return found, problem
}

// both is an error of one line for two problems, of which the first may be nil.
func both(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

func openVariant(ctx context.Context, v Variant, o Options, env Environment) (*xtables, error) {
	x := &xtables{variant: v, run: env.Tools, log: env.Log}
	var err error
	if x.four, err = findPrograms(IPv4, v, env.Tools); err != nil {
		return nil, err
	}
	if x.six, err = findPrograms(IPv6, v, env.Tools); err != nil && o.IPv6 {
		return nil, err
	}
	version, err := x.run.Run(ctx, Call{Path: x.four.save, Args: []string{"--version"}})
	if err != nil {
		return nil, err
	}
	// The legacy programs did not say so of themselves before there was anything else.
	x.legacy = !strings.Contains(version, "nf_tables")
	if o.CNIMode {
		// The lock of iptables-legacy is a file of the machine, on which the node's own programs wait too. A pod's
		// namespace needs no more than a lock of its own.
		x.env = []string{"XTABLES_LOCKFILE=" + namespacePath(o.NetworkNamespace)}
	}
	for _, f := range []Family{IPv4, IPv6} {
		p, ok := x.programs(f)
		if !ok {
			continue
		}
		text, err := x.run.Run(ctx, Call{Path: p.save})
		if err != nil {
			return nil, err
		}
		x.hasRules = x.hasRules || hasRule(text)
	}
	return x, nil
}

func findPrograms(f Family, v Variant, run Tools) (programs, error) {
	save, err := run.Find(toolName(f, v) + "-save")
	if err != nil {
		return programs{}, err
	}
	restore, err := run.Find(toolName(f, v) + "-restore")
	if err != nil {
		return programs{}, err
	}
	return programs{save: save, restore: restore}, nil
}

// selectXtables returns the variant to use: legacy if it has rules of anyone, for rules that the kernel keeps in two places
// are hard to follow; else nft; else what there is and works. The error says why none does.
func selectXtables(ctx context.Context, found []*xtables, want Ruleset) (*xtables, error) {
	var order []*xtables
	for _, prefer := range []func(*xtables) bool{
		func(x *xtables) bool { return x.legacy && x.hasRules },
		func(x *xtables) bool { return !x.legacy },
		func(x *xtables) bool { return x.legacy && !x.hasRules },
	} {
		for _, x := range found {
			if prefer(x) {
				order = append(order, x)
			}
		}
	}
	var problem error
	for _, x := range order {
		err := x.works(ctx, want)
		if err == nil {
			return x, nil
		}
		problem = both(problem, fmt.Errorf("%s does not work here: %w", x.name(), err))
	}
	return nil, problem
}
