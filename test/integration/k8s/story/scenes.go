package story

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scene is one step of the story. Each begins with the state that the previous one left.
type scene struct {
	title string
	// load is set if calls come through the gateway all the time, none of which may fail.
	load bool
	play func(context.Context, *Stage) error
}

// allScenes are those of Istio's kinds, in order.
func allScenes() []scene {
	return []scene{
		{title: "Helm installs the control plane and an ingress gateway", play: playInstall},
		{title: "A namespace is labelled, and Bookinfo's pods get sidecars", play: playBookinfo},
		{title: "Callers from outside come in by the gateway", play: playGateway},
		{title: "A rule that is wrong is refused, with its reason", play: playMistake},
		{title: "All calls go to reviews v1, and the rule's status says when", load: true, play: playAllV1},
		{title: "One call in ten goes to v3", load: true, play: playShift},
		{title: "Reviews v1 is scaled to three, and back", load: true, play: playScale},
		{title: "Productpage and reviews v1 are rolled with maxSurge 100%", load: true, play: playRoll},
		{title: "The control plane's pod is deleted", load: true, play: playRestart},
		{title: "The API server stops, and comes back", load: true, play: playOutage},
	}
}

// Play plays all scenes. It fails after all scenes if an expectation was not met, or at once if a
// scene is aborted, because later scenes depend on it.
func (s *Stage) Play(ctx context.Context) error {
	return s.playAll(ctx, append(allScenes(), gatewayAPIScenes()...))
}

// PlayIstio plays the scenes of Istio's kinds, and fails as Play does.
func (s *Stage) PlayIstio(ctx context.Context) error { return s.playAll(ctx, allScenes()) }

func (s *Stage) playAll(ctx context.Context, all []scene) error {
	for i, scene := range all {
		s.audience.Scene(i+1, len(all), scene.title)
		if err := s.playOne(ctx, scene); err != nil {
			s.reportVerdict(false, "the scene", "played to its end", err.Error())
			return fmt.Errorf("scene %q: %w", scene.title, err)
		}
	}
	s.reportVerdict(
		s.load.Failed == 0,
		"calls while things were changed",
		"0 failed",
		fmt.Sprintf("%d sent, %d failed", s.load.Sent, s.load.Failed),
	)
	if s.failed > 0 {
		return fmt.Errorf("%d expectations did not hold", s.failed)
	}
	return nil
}

func (s *Stage) playOne(ctx context.Context, scene scene) error {
	if !scene.load {
		return scene.play(ctx, s)
	}
	tally, err := s.underLoad(ctx, func(ctx context.Context) error {
		if err := scene.play(ctx, s); err != nil {
			return err
		}
		return sleepFor(ctx, afterwards)
	})
	s.load.Sent, s.load.Failed = s.load.Sent+tally.Sent, s.load.Failed+tally.Failed
	s.reportVerdict(
		tally.Failed == 0 && tally.Sent > 0,
		"calls all the while",
		"0 failed",
		fmt.Sprintf("%d failed of %d, at %.0f a second", tally.Failed, tally.Sent,
			float64(tally.Sent)/tally.Took.Seconds()),
	)
	for _, failure := range tally.Failures {
		s.audience.Say("failed %s", failure)
	}
	return err
}

// afterwards is how long calls go on after a change: for a later scene that breaks it.
const afterwards = time.Second

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func playInstall(ctx context.Context, s *Stage) error {
	if err := s.installCharts(ctx); err != nil {
		return err
	}
	pods, err := s.client.CoreV1().Pods("istio-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	s.reportVerdict(
		len(pods.Items) == 2,
		"pods in istio-system",
		"the control plane and the gateway",
		fmt.Sprintf("%d", len(pods.Items)),
	)
	return nil
}

func playBookinfo(ctx context.Context, s *Stage) error {
	if _, err := s.runKubectl(ctx, "label", "namespace", "default", "istio-injection=enabled"); err != nil {
		return err
	}
	if err := s.applyBookinfo(ctx); err != nil {
		return err
	}
	return s.expectSidecars(ctx)
}

// applyBookinfo applies Bookinfo and its Gateway, and waits until its Deployments are complete.
func (s *Stage) applyBookinfo(ctx context.Context) error {
	for _, file := range []string{"bookinfo.yaml", "gateway.yaml"} {
		if err := s.applyFile(ctx, "kubernetes/"+file, false); err != nil {
			return err
		}
	}
	return s.awaitDeployments(ctx, "")
}

// expectSidecars reports whether all pods of Bookinfo have a sidecar that is ready.
func (s *Stage) expectSidecars(ctx context.Context) error {
	pods, err := s.listPods(ctx, "")
	if err != nil {
		return err
	}
	with := 0
	for _, p := range pods {
		for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			if c.Name == "istio-proxy" && c.Ready {
				with++
			}
		}
	}
	s.reportVerdict(
		with == len(pods) && with > 0,
		"pods with a sidecar that is ready",
		"all",
		fmt.Sprintf("%d of %d", with, len(pods)),
	)
	return nil
}

func playGateway(ctx context.Context, s *Stage) error {
	s.audience.Say("curl http://%s/productpage", s.gateway)
	var page []byte
	err := awaitCondition(ctx, "the product page", func(ctx context.Context) error {
		code, body, err := s.getPath(ctx, "/productpage")
		if err == nil && code != 200 {
			err = fmt.Errorf("%d: %.200s", code, body)
		}
		page = body
		return err
	})
	if err != nil {
		return err
	}
	s.reportVerdict(len(page) > 0, "the product page", "200", fmt.Sprintf("200, %d bytes", len(page)))
	code, _, err := s.getPath(ctx, "/nothing-leads-here")
	if err != nil {
		return err
	}
	s.reportVerdict(code == 404, "what no rule leads to", "404", fmt.Sprint(code))
	var seen map[string]int
	err = awaitCondition(ctx, "all versions of reviews", func(ctx context.Context) (err error) {
		if seen, err = s.countVersions(ctx, 12); err == nil && len(seen) != 3 {
			err = fmt.Errorf("there answer %v", seen)
		}
		return err
	})
	s.reportVerdict(err == nil, "reviews of 12 calls", "v1, v2 and v3", fmt.Sprint(seen))
	return nil
}

const mistake = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - route:
    - {destination: {host: reviews, subset: v1}, weight: -5}
`

func playMistake(ctx context.Context, s *Stage) error {
	s.audience.Show(mistake)
	err := s.cluster.Apply(ctx, mistake)
	s.reportVerdict(err != nil, "the rule", "refused, naming field and reason", fmt.Sprint(err))
	return nil
}

func playAllV1(ctx context.Context, s *Stage) error {
	for _, file := range []string{"destination-rule-all.yaml", "virtual-service-all-v1.yaml"} {
		if err := s.applyFile(ctx, "networking/"+file, true); err != nil {
			return err
		}
	}
	if err := s.awaitReconciled(ctx); err != nil {
		return err
	}
	seen, err := s.countVersions(ctx, 40)
	if err != nil {
		return err
	}
	s.reportVerdict(seen["reviews-v1"] == 40, "reviews of 40 calls", "v1 only", fmt.Sprint(seen))
	return nil
}

// awaitReconciled waits as a user's script does until proxies have the rule for reviews.
func (s *Stage) awaitReconciled(ctx context.Context) error {
	if _, err := s.runKubectl(
		ctx,
		"wait",
		"--for=condition=Reconciled",
		"--timeout=60s",
		"virtualservice/reviews",
	); err != nil {
		return err
	}
	said, err := s.runKubectl(
		ctx,
		"get",
		"virtualservice/reviews",
		"-o",
		`jsonpath={.status.conditions[?(@.type=="Reconciled")].message}`,
	)
	s.audience.Say("its status: %s", said)
	return err
}

func playShift(ctx context.Context, s *Stage) error {
	if err := s.applyFile(ctx, "networking/virtual-service-reviews-90-10.yaml", true); err != nil {
		return err
	}
	const calls = 300
	var seen map[string]int
	// The condition may still be that of the previous rule for a moment, so the answers are
	// checked.
	err := awaitCondition(ctx, "v3", func(ctx context.Context) (err error) {
		if seen, err = s.countVersions(ctx, 10); err == nil && seen["reviews-v3"] == 0 {
			err = fmt.Errorf("there answer %v", seen)
		}
		return err
	})
	if err != nil {
		return err
	}
	if seen, err = s.countVersions(ctx, calls); err != nil {
		return err
	}
	v3 := float64(seen["reviews-v3"]) / calls
	// Of 300, 99.9% of all rounds have between 4% and 17%.
	s.reportVerdict(
		v3 > 0.04 && v3 < 0.17 && seen["reviews-v2"] == 0,
		fmt.Sprintf("reviews of %d calls", calls),
		"about one in ten v3, others v1",
		fmt.Sprint(seen),
	)
	return nil
}
