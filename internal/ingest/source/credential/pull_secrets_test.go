package credential

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// pluginLab runs PullSecrets with a source whose API server never answers, so that every wait lasts
// for its timeout. It must be used in a synctest bubble.
type pluginLab struct {
	t       *testing.T
	secrets *PullSecrets
	out     chan mesh.Batch
}

func newPluginLab(t *testing.T) *pluginLab {
	t.Helper()
	l := &pluginLab{t: t, out: make(chan mesh.Batch, 16)}
	l.secrets = NewPullSecrets(New(Options{}), func(c *config.Config) (config.Key, bool) {
		name := c.Annotations["secret"]
		return config.Key{Kind: api.Secret, Namespace: "ns", Name: name}, c.Kind == api.WasmPlugin && name != ""
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.secrets.Run(ctx, l.out); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	if first := <-l.out; len(first) != 1 || first[0].Op != mesh.Synced {
		t.Fatalf("the first batch is %v, want Synced", first)
	}
	l.secrets.Hold.StartHolding()
	return l
}

// convert sends a script through the Hold, and returns the output.
func (l *pluginLab) convert(script string) string {
	return spell(l.secrets.Hold.Convert(eventsOf(script)))
}

// settle sends the next emitted batch through the Hold, and returns the output.
func (l *pluginLab) settle() string {
	l.t.Helper()
	select {
	case batch := <-l.out:
		return spell(l.secrets.Hold.Convert(batch))
	case <-time.After(5 * awaitTimeout):
		l.t.Fatal("no wait ends")
		return ""
	}
}

func TestPluginIsReleasedAfterTheTimeoutOfItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPluginLab(t)
		if out := l.convert("plugin one a"); out != "" {
			t.Errorf("a plugin whose Secret is not known passes: %q", out)
		}
		want := Want{Objects: []config.Key{{Kind: api.Secret, Namespace: "ns", Name: "a"}}}
		if got := l.secrets.source.wants[pullSecretsStream]; !got.equal(want) {
			t.Errorf("requested are %v, want %v", got, want)
		}
		if out := l.settle(); out != "plugin one a" {
			t.Errorf("after the timeout %q is released", out)
		}
		if named := l.secrets.namedNow(); !slices.Equal(named, want.Objects) {
			t.Errorf("named are %v", named)
		}
	})
}

// TestPluginThatIsReplacedIsReleased: a plugin is deleted and created again while Run waits for
// another Secret. Run never sees that the Secret was not named for a moment, but the Hold has
// forgotten it.
func TestPluginThatIsReplacedIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPluginLab(t)
		l.convert("plugin one a")
		l.settle()
		l.convert("plugin other b")
		synctest.Wait() // Run waits for b
		l.convert("-plugin one")
		if out := l.convert("plugin one a"); out != "" {
			t.Fatalf("a plugin passes whose Secret was forgotten: %q", out)
		}
		if out := l.settle(); out != "plugin other b" {
			t.Errorf("after the first timeout %q is released", out)
		}
		if out := l.settle(); out != "plugin one a" {
			t.Errorf("after the second timeout %q is released", out)
		}
	})
}

// TestUnusedSecretIsForgotten: a Secret that is named again after a time is waited for again.
func TestUnusedSecretIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPluginLab(t)
		l.convert("plugin one a")
		l.settle()
		l.convert("-plugin one")
		synctest.Wait()
		if len(l.secrets.source.wants) > 0 {
			t.Errorf("requested are still %v", l.secrets.source.wants)
		}
		l.convert("plugin two a")
		if out := l.settle(); out != "plugin two a" {
			t.Errorf("%q is released", out)
		}
	})
}
