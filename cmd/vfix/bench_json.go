// What vfix bench prints with --format json. docs/json.md describes the fields.

package main

import "vfix.dev/vfix/host/bench"

type jsonBench struct {
	jsonDocument
	Image   string            `json:"image"`
	Rounds  int               `json:"rounds"`
	Modes   []jsonBenchMode   `json:"modes"`
	Figures []jsonBenchFigure `json:"figures"`
}

type jsonBenchMode struct {
	Mode  string `json:"mode"`
	About string `json:"about"`
}

type jsonBenchFigure struct {
	Function    string  `json:"function"`
	Mode        string  `json:"mode"`
	Nanoseconds float64 `json:"ns"`
	Least       float64 `json:"ns_least"`
	Most        float64 `json:"ns_most"`
	PerSecond   float64 `json:"calls_per_second"`
	Ratio       float64 `json:"ratio_to_vdso"`
	Absent      string  `json:"absent"`
}

func benchJSON(opts BenchOptions, b benched) jsonBench {
	out := jsonBench{jsonDocument: jsonDocument{Schema: schemaVersion, Verb: "bench"}, Image: b.image, Rounds: opts.rounds, Modes: []jsonBenchMode{}, Figures: []jsonBenchFigure{}}
	for _, m := range b.modes {
		out.Modes = append(out.Modes, jsonBenchMode{m.Name, m.About})
	}
	for _, f := range b.figures {
		out.Figures = append(out.Figures, jsonBenchFigure{f.Function, f.Mode, f.Nanoseconds, f.Least, f.Most, f.PerSecond(), f.Ratio, f.Absent})
	}
	return out
}

type jsonRedisBench struct {
	jsonDocument
	Image    string          `json:"image"`
	Rounds   int             `json:"rounds"`
	Requests int             `json:"requests"`
	Pipeline int             `json:"pipeline"`
	Redis    []jsonRedisSide `json:"redis"`
}

type jsonRedisSide struct {
	Mode      string             `json:"mode"`
	Test      string             `json:"test"`
	PerSecond float64            `json:"requests_per_second"`
	Least     float64            `json:"requests_per_second_least"`
	Most      float64            `json:"requests_per_second_most"`
	Latencies []jsonRedisLatency `json:"latencies"`
	Absent    string             `json:"absent"`
}

type jsonRedisLatency struct {
	Percent      float64 `json:"percent"`
	Milliseconds float64 `json:"ms"`
}

func redisJSON(opts BenchOptions, image string, all []bench.Redis) jsonRedisBench {
	out := jsonRedisBench{
		jsonDocument: jsonDocument{Schema: schemaVersion, Verb: "bench"}, Image: image, Rounds: opts.rounds,
		Requests: opts.requests, Pipeline: opts.pipeline, Redis: []jsonRedisSide{},
	}
	for _, r := range all {
		j := jsonRedisSide{r.Mode, r.Test, r.PerSecond, r.Least, r.Most, []jsonRedisLatency{}, r.Absent}
		for _, l := range r.Latencies {
			j.Latencies = append(j.Latencies, jsonRedisLatency{l.Percent, l.Milliseconds})
		}
		out.Redis = append(out.Redis, j)
	}
	return out
}
