package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// injectorName is how the names of webhooks of injection end.
const injectorName = "sidecar-injector.istio.io"

// How often a configuration is written that somebody else writes too, and how long to wait after an error.
const (
	writesAtOnce  = 5
	writeInterval = time.Minute
	firstRetry    = 100 * time.Millisecond
	lastRetry     = time.Minute
)

// Configurations keeps the webhook configurations of one revision: the API server must trust the certificate that it meets, and
// must insist on validation once that works. Every replica does it; they want the same, so that only the first one writes.
//
// Configurations are ours by their label istio.io/rev, whatever their name: so those of tags are, too.
type Configurations struct {
	Client   kubernetes.Interface
	Revision string
	// Injection and Validation say which kinds of configurations are kept.
	Injection, Validation bool
	// Bundle gives the roots of our certificate, in PEM, and a channel that is closed when there are others. Empty: there is no
	// certificate yet.
	Bundle func() (pem []byte, changed <-chan struct{})
	// Probe says whether validation works, see [Probe]; nil: failurePolicies stay as they are.
	Probe   func(context.Context, *admissionregistrationv1.ValidatingWebhookConfiguration) error
	Metrics *obs.WebhookMetrics
	Log     *slog.Logger

	// limits bounds the writes of each configuration.
	limits map[string]*rate.Limiter
	// works says that validation was seen to work.
	works bool
}

// Run keeps the configurations until the context ends.
func (c *Configurations) Run(ctx context.Context) error {
	c.limits = map[string]*rate.Limiter{}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = label.IoIstioRev.Name + "=" + c.Revision
	}))
	changed := make(chan struct{}, 1)
	var mutating, validating cache.SharedIndexInformer
	if c.Injection {
		mutating = factory.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
		if err := c.watch(mutating, "mutatingwebhookconfigurations", changed); err != nil {
			return err
		}
	}
	if c.Validation {
		validating = factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
		if err := c.watch(validating, "validatingwebhookconfigurations", changed); err != nil {
			return err
		}
	}
	factory.StartWithContext(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		factory.Shutdown()
		return nil
	})
	group.Go(func() error {
		return recovery.Call(ctx, "task", func() error { c.loop(ctx, changed, mutating, validating); return nil }, "task", "webhook configurations")
	})
	return group.Wait()
}

// watchErrorInterval is how often an error that does not change is logged.
const watchErrorInterval = 10 * time.Minute

// watch sends on changed when a configuration is added or updated, and logs why the resource cannot be watched. The informer tries
// again by itself; until then the configurations stay as they are.
func (c *Configurations) watch(informer cache.SharedIndexInformer, resource string, changed chan<- struct{}) error {
	var last string
	var logged time.Time
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { // one call at a time
		if text := err.Error(); text != last || time.Since(logged) >= watchErrorInterval {
			last, logged = text, time.Now()
			c.Log.Warn("cannot watch "+resource+"; their CA bundles and failure policies are not kept, trying again", "err", err)
		}
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake(changed) }, UpdateFunc: func(any, any) { wake(changed) },
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	return nil
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it was woken already
	}
}

// loop looks at all configurations when one changes, when the roots change, and again after errors, more and more seldom.
func (c *Configurations) loop(ctx context.Context, changed <-chan struct{}, mutating, validating cache.SharedIndexInformer) {
	retry := firstRetry
	for {
		// The configurations are read before the roots. In the other order this replica could see the write of another one
		// that has newer roots already, and undo it.
		mutatingNow, validatingNow := list(mutating), list(validating)
		bundle, other := c.Bundle()
		var wait <-chan time.Time
		if len(bundle) > 0 {
			again, err := c.keep(ctx, bundle, mutatingNow, validatingNow)
			switch {
			case err != nil && ctx.Err() == nil:
				c.Log.Warn("webhook configurations are not as they should be; trying again", "err", err, "in", retry)
				again = retry
				retry = min(2*retry, lastRetry)
			case err == nil:
				retry = firstRetry
			}
			if again > 0 {
				wait = time.After(again)
			}
		}
		select {
		case <-changed:
		case <-other:
		case <-wait:
		case <-ctx.Done():
			return
		}
	}
}

func list(informer cache.SharedIndexInformer) []any {
	if informer == nil {
		return nil
	}
	return informer.GetStore().List()
}

// keep writes what is not as it should be. It says when to look again, if not all may be written now.
func (c *Configurations) keep(ctx context.Context, bundle []byte, mutating, validating []any) (again time.Duration, err error) {
	var errs []error
	soon := func(d time.Duration) {
		if d > 0 && (again == 0 || d < again) {
			again = d
		}
	}
	for _, object := range mutating {
		if m, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			d, err := c.keepInjection(ctx, m, bundle)
			soon(d)
			errs = append(errs, err)
		}
	}
	for _, object := range validating {
		if v, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			d, err := c.keepValidation(ctx, v, bundle)
			soon(d)
			errs = append(errs, err)
		}
	}
	return again, errors.Join(errs...)
}

func (c *Configurations) keepInjection(ctx context.Context, m *admissionregistrationv1.MutatingWebhookConfiguration, bundle []byte) (time.Duration, error) {
	var part []map[string]any
	for _, w := range m.Webhooks {
		if strings.HasSuffix(w.Name, injectorName) && !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			part = append(part, map[string]any{"name": w.Name, "clientConfig": map[string]any{"caBundle": bundle}})
		}
	}
	if len(part) == 0 {
		return 0, nil
	}
	if d := c.turn(m.Name); d > 0 {
		return d, nil
	}
	c.Metrics.Patches.WithLabelValues(injectorName).Inc()
	_, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Patch(ctx, m.Name, types.StrategicMergePatchType, webhooksPatch(part), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		c.Metrics.PatchFailures.WithLabelValues(m.Name, "webhook_update_failure").Inc()
		c.Metrics.PatchRetries.WithLabelValues(m.Name).Inc()
		return 0, fmt.Errorf("patch MutatingWebhookConfiguration %q: %w", m.Name, err)
	}
	c.Log.Info("the API server trusts our certificate for injection", "configuration", m.Name)
	return 0, nil
}

func (c *Configurations) keepValidation(ctx context.Context, v *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) (time.Duration, error) {
	var part []map[string]any
	open := false
	for _, w := range v.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			part = append(part, map[string]any{"name": w.Name, "clientConfig": map[string]any{"caBundle": bundle}})
		}
		open = open || w.FailurePolicy != nil && *w.FailurePolicy != admissionregistrationv1.Fail
	}
	if len(part) > 0 {
		return c.patchValidation(ctx, v.Name, part, "the API server trusts our certificate for validation")
	}
	if !open || c.Probe == nil {
		return 0, nil
	}
	if !c.works {
		if err := c.Probe(ctx, v); err != nil {
			return 0, fmt.Errorf("%q stays with failurePolicy Ignore: %w", v.Name, err)
		}
		c.works = true
	}
	for _, w := range v.Webhooks {
		part = append(part, map[string]any{"name": w.Name, "failurePolicy": admissionregistrationv1.Fail})
	}
	return c.patchValidation(ctx, v.Name, part, "validation was seen to work: from now on it fails closed")
}

func (c *Configurations) patchValidation(ctx context.Context, name string, part []map[string]any, done string) (time.Duration, error) {
	if d := c.turn(name); d > 0 {
		return d, nil
	}
	_, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, name, types.StrategicMergePatchType, webhooksPatch(part), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		c.Metrics.ConfigErrors.WithLabelValues(string(apierrors.ReasonForError(err))).Inc()
		return 0, fmt.Errorf("patch ValidatingWebhookConfiguration %q: %w", name, err)
	}
	c.Metrics.ConfigUpdates.Inc()
	c.Log.Info(done, "configuration", name)
	return 0, nil
}

// turn says how long to wait before a configuration may be written once more; 0: now. Who writes it time and again has somebody
// to quarrel with, and says so.
func (c *Configurations) turn(name string) time.Duration {
	l := c.limits[name]
	if l == nil {
		l = rate.NewLimiter(rate.Every(writeInterval), writesAtOnce)
		c.limits[name] = l
	}
	r := l.Reserve()
	d := r.Delay()
	if d > 0 {
		r.Cancel()
		c.Log.Warn("somebody else writes this webhook configuration, too; is there another control plane of this revision?", "configuration", name, "wait", d)
	}
	return d
}

// webhooksPatch is a strategic merge patch, in which webhooks are joined by name: nothing else of them changes, and nothing that
// others write meanwhile is lost.
func webhooksPatch(part []map[string]any) []byte {
	b, _ := json.Marshal(map[string]any{"webhooks": part}) // strings and bytes
	return b
}
