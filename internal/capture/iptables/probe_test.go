package iptables_test

import (
	"errors"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// TestValidationAfterwards is the case of a CNI plugin: the rules are applied already, and so is
// ::6, which is no address of the pod.
func TestValidationAfterwards(t *testing.T) {
	for _, mode := range []iptables.InterceptionMode{iptables.Redirect, iptables.TPROXY} {
		t.Run(string(mode), func(t *testing.T) {
			pod, _ := newPod(t)
			options := sidecarOptions()
			options.NativeNftables, options.InboundMode = true, mode
			if options.ProxyMark != 0 {
				options.ProxyMark = otherMark
			}
			mustRun(t, pod, options)
			options.ApplyRules, options.RunValidation = false, true
			mustRun(t, pod, options)
		})
	}
}

func TestValidation(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			pod, _ := newPod(t)
			options := sidecarOptions()
			options.NativeNftables, options.RunValidation, options.ProxyMark = true, true, 0
			if mode == "mark" {
				options.ProxyMark = proxyMark
			}
			before := options
			before.ApplyRules, before.ProbeTimeout = false, 150*time.Millisecond
			if err := run(t, pod, before); !errors.Is(err, iptables.ErrValidation) {
				t.Errorf("without rules: got error %v, want ErrValidation", err)
			}
			mustRun(t, pod, options)
		})
	}
}
