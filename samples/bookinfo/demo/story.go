package main

import (
	"context"
	"fmt"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
)

const (
	// loadRate is the background load in requests per second, with some above the 50 that are promised.
	loadRate  = 60
	loadLeast = 50
	// loadMargin is how long it runs before and after the scene's changes.
	loadMargin = time.Second
)

// scene is one step of the story.
type scene struct {
	title string
	// load says that requests for reviews run all the while, none of which may fail.
	load bool
	play func(context.Context, *stage) error
}

// story is all scenes in order; each begins with the rules that the one before has left.
func story() []scene {
	return []scene{
		{title: "Without rules, all versions of reviews answer in turn", play: playInTurn},
		{title: "A VirtualService and DestinationRules send everybody to v1", load: true, play: playAllV1},
		{title: "One request in ten goes to v3", load: true, play: playShift},
		{title: "Jason goes to v2", load: true, play: playUser},
		{title: "Ratings become slow, then fail", play: playFaults},
		{title: "A retry hides failures that pass", play: playRetry},
		{title: "A timeout bounds the wait", play: playTimeout},
		{title: "A subset is taken away, and given back", load: true, play: playSubset},
		{title: "The control plane stops, and comes back", load: true, play: playRestart},
	}
}

// tell plays all scenes. A scene that breaks off counts as not as expected, and the next one begins.
func (s *stage) tell(ctx context.Context, scenes []scene) error {
	var sent, lost int
	for i, scene := range scenes {
		s.screen.Scene(i+1, len(scenes), scene.title)
		tally, err := s.playOne(ctx, scene)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.expect(false, "the scene", "played to its end", err.Error())
		}
		sent, lost = sent+tally.Sent, lost+tally.Failed
	}
	s.screen.Line(screen.Plain, "")
	s.screen.Line(screen.Bold, "Summary")
	s.expect(lost == 0, "requests while traffic was changed", "0 failed", fmt.Sprintf("%d sent, %d failed", sent, lost))
	return nil
}

func (s *stage) playOne(ctx context.Context, scene scene) (mesh.Tally, error) {
	if !scene.load {
		return mesh.Tally{}, scene.play(ctx, s)
	}
	url := mesh.Reviews
	if s.mesh.Consul != nil {
		url = reviewsInConsul()
	}
	load := mesh.StartLoad(s.mesh.Workload("client").Node, url, loadRate)
	pause(ctx, loadMargin)
	err := scene.play(ctx, s)
	pause(ctx, loadMargin)
	tally := load.Stop()
	s.expect(tally.Failed == 0 && tally.Rate() >= loadLeast, "requests all the while",
		fmt.Sprintf("0 failed, at %d a second or more", loadLeast),
		fmt.Sprintf("%d failed of %d, at %.0f a second", tally.Failed, tally.Sent, tally.Rate()))
	for _, failure := range tally.Failures {
		s.screen.Say("failed %s", failure)
	}
	return tally, err
}

// pause lets time pass, less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
