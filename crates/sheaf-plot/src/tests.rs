use super::*;
use proptest::prelude::*;
use reading::{Element, elements};

mod reading;

fn curves() -> Chart {
    let mut chart =
        Chart::new("Event builder 2 x 2", Axis::bytes("fragment size"), Axis::log("throughput", "B/s"));
    let speed = |size: f64, offset: f64, rate: f64| size / (offset + size / rate);
    let sizes: Vec<f64> = (6..=20).map(|power| 2f64.powi(power)).collect();
    let points = |offset: f64, rate: f64| -> Vec<Point> {
        let point = |&size: &f64| {
            let y = speed(size, offset, rate);
            Point::new(size, y).within(y * 0.8, y * 1.1)
        };
        sizes.iter().map(point).collect()
    };
    chart.subtitle =
        "processes, payload written and read; medians of 5, bars from least to greatest".to_owned();
    chart.series.push(Series::line("shared memory", points(120e-9, 20e9)));
    chart.series.push(Series::line("tcp", points(600e-9, 4e9)));
    let fit = sizes.iter().map(|&size| Point::new(size, speed(size, 600e-9, 4e9) * 1.02));
    chart.series.push(Series::new("fit 600 ns + size / 4.0 GB/s", Draw::Dashed, fit).coloured(1));
    chart.bands.push(Band {
        name: "tolerance".to_owned(),
        edges: sizes.iter().map(|&size| (size, size * 1e5, size * 1e6)).collect(),
        colour: Some(2),
    });
    chart.references.push(Reference { at: Mark::Y(4.0e9), label: "plateau 4.0 GB/s".to_owned() });
    chart.references.push(Reference { at: Mark::X(2048.0), label: "nominal 2 kB".to_owned() });
    chart.caption = "Two cores, one machine; every payload byte is written once by the source and read once by the \
                     builder. Figures are of this run and no other, see the page on performance for how to repeat."
        .to_owned();
    chart
}

fn linear() -> Chart {
    let mut chart = Chart::new(
        "Efficiency of a 64 x 64 network",
        Axis::linear("buffer per input", "kB"),
        Axis::linear("efficiency", "").written(Notation::Percent).between(0.0, 1.0),
    );
    for (number, name) in
        ["unshaped", "paced pull", "barrel shifter", "random", "a name that is much longer than the others"]
            .iter()
            .enumerate()
    {
        let top = 0.55 + 0.1 * f64::from(u32::try_from(number).expect("few"));
        let points = (0..=8).map(|step| {
            let x = f64::from(step) * 4.0;
            Point::new(x, top * (1.0 - 0.4 * (-x / 6.0).exp()))
        });
        chart.series.push(Series::line(*name, points));
    }
    let stairs =
        (0..12).map(|step| Point::new(f64::from(step) * 3.0, 0.1 + 0.02 * f64::from(step * step % 7)));
    chart.series.push(Series::new("stairs", Draw::Steps, stairs));
    chart.references.push(Reference { at: Mark::Y(0.586), label: "head-of-line limit 58.6 %".to_owned() });
    chart
}

fn drawn(chart: &Chart) -> Vec<Element> {
    elements(&chart.to_svg().expect("a valid chart is drawn"))
}

fn texts(elements: &[Element]) -> Vec<&str> {
    elements.iter().filter(|element| element.name == "text").map(|element| element.text.as_str()).collect()
}

#[test]
fn a_chart_shows_all_words_that_it_was_given() {
    let chart = curves();
    let elements = drawn(&chart);
    let texts = texts(&elements);
    for word in
        ["fragment size (B)", "throughput (B/s)", "plateau 4.0 GB/s", "nominal 2 kB", "64", "1 Mi", "10 G"]
    {
        assert!(texts.contains(&word), "{word:?} is missing in {texts:?}");
    }
    assert!(texts.contains(&chart.title.as_str()) && texts.contains(&chart.subtitle.as_str()));
    let all = texts.join(" ");
    for text in chart.series.iter().map(|series| &series.name).chain([&chart.caption]) {
        assert!(text.split_whitespace().all(|word| all.contains(word)), "{text:?} is missing in {texts:?}");
    }
}

#[test]
fn a_long_subtitle_is_broken_into_lines_above_the_plot() {
    let mut chart = linear();
    chart.subtitle = "a condition of the measurement, ".repeat(8);
    let elements = drawn(&chart);
    let lines: Vec<_> = elements.iter().filter(|element| element.text.contains("condition")).collect();
    assert!(lines.len() > 1, "one line of {} letters", chart.subtitle.len());
    let axis = elements.iter().find(|element| element.attribute("stroke") == "#555555");
    let top = axis.expect("there is an axis").points()[0].1;
    assert!(lines.iter().all(|line| line.text.len() < 160 && line.number("y") < top));
}

#[test]
fn the_same_chart_gives_the_same_bytes() {
    for chart in [curves(), linear()] {
        assert_eq!(chart.to_svg(), chart.clone().to_svg());
    }
}

#[test]
fn every_point_has_its_marker_and_the_legend_has_one_more() {
    let elements = drawn(&curves());
    let circles = elements.iter().filter(|element| element.name == "circle").count();
    assert_eq!(circles, 15 + 1, "shared memory is the series with circles");
}

#[test]
fn nothing_of_the_data_is_beyond_the_frame_and_the_legend_is() {
    for chart in [curves(), linear()] {
        let elements = drawn(&chart);
        let legend = elements.iter().find(|element| element.text == "stairs" || element.text == "tcp");
        let legend = legend.expect("the legend has this name").number("x") - 10.0 * (26.0 + 7.0);
        let curves = elements.iter().filter(|element| element.attribute("stroke-width") == "20");
        let across = curves.flat_map(Element::points).map(|(x, _)| x);
        // Samples of the legend begin at its edge; all else ends before the frame, sixteen pixels to the left.
        let beyond = across.filter(|&x| x > legend - 159.0 && x < legend - 1.0);
        assert_eq!(beyond.count(), 0);
    }
}

#[test]
fn a_curve_that_leaves_the_range_is_cut_there() {
    let mut chart = linear();
    chart.y = chart.y.between(0.4, 0.6);
    let (frame, below): (Vec<_>, Vec<_>) = {
        let elements = drawn(&chart);
        let axis = elements.iter().find(|element| element.attribute("stroke") == "#555555");
        let frame = axis.expect("there is an axis").points();
        let curves = elements.iter().filter(|element| element.attribute("stroke-width") == "20");
        (frame, curves.flat_map(Element::points).collect())
    };
    let (top, bottom) = (frame[0].1, frame[1].1);
    assert!(below.iter().all(|&(_, y)| y >= top - 1.0 && y <= bottom + 1.0));
}

#[test]
fn labels_of_close_reference_lines_do_not_lie_on_one_another() {
    let mut chart = linear();
    for at in [0.30, 0.31, 0.32] {
        chart.references.push(Reference { at: Mark::Y(at), label: format!("limit at {at}") });
    }
    let elements = drawn(&chart);
    let labels: Vec<_> = elements.iter().filter(|element| element.text.starts_with("limit at")).collect();
    assert_eq!(labels.len(), 3);
    for (number, one) in labels.iter().enumerate() {
        for other in &labels[number + 1..] {
            let apart = (one.number("x") - other.number("x")).abs() >= 600.0
                || (one.number("y") - other.number("y")).abs() >= 115.0;
            assert!(apart, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn words_with_markup_stay_words() {
    let mut chart = linear();
    chart.title = "a < b & \"c\" > 'd'".to_owned();
    chart.series[0].name = "<script>".to_owned();
    let elements = drawn(&chart);
    assert!(texts(&elements).contains(&chart.title.as_str()));
    assert!(texts(&elements).contains(&"<script>"));
    assert!(elements.iter().all(|element| element.name != "script"));
}

#[test]
fn what_has_no_place_is_named() {
    let mut chart = curves();
    chart.series[1].points[3].y = 0.0;
    let error = chart.to_svg().expect_err("zero has no logarithm");
    let text = error.to_string();
    assert!(
        text.contains("series \"tcp\"") && text.contains("throughput") && text.contains("linear"),
        "{text}"
    );
    chart.series[1].points[3].y = f64::NAN;
    assert!(matches!(chart.to_svg(), Err(Error::Value { value, .. }) if value.is_nan()));
}

#[test]
fn an_error_bar_to_zero_is_cut_on_a_logarithmic_axis() {
    let mut chart = curves();
    chart.series[1].points[3].interval = Some((0.0, 1e9));
    assert!(chart.to_svg().is_ok());
}

#[test]
fn a_chart_without_data_a_range_backwards_and_a_stamp_are_errors() {
    let empty = Chart::new("t", Axis::linear("x", ""), Axis::linear("y", ""));
    assert_eq!(empty.to_svg(), Err(Error::Empty { title: "t".to_owned() }));
    let mut backwards = linear();
    backwards.y = backwards.y.between(2.0, 1.0);
    assert!(matches!(backwards.to_svg(), Err(Error::Range { .. })));
    let stamp = Chart { width: 200, height: 90, ..linear() };
    let Err(Error::Room { at_least_width, at_least_height, .. }) = stamp.to_svg() else {
        panic!("there is no room")
    };
    let enough = Chart { width: at_least_width, height: at_least_height, ..stamp };
    assert!(enough.to_svg().is_ok(), "{at_least_width} x {at_least_height} was said to be enough");
}

#[test]
fn numbers_are_written_as_people_write_them() {
    let cases = [
        (0.0, Notation::Si, "0"),
        (1000.0, Notation::Si, "1 k"),
        (999.0, Notation::Si, "999"),
        (2.5e-6, Notation::Si, "2.5 µ"),
        (-3e9, Notation::Si, "-3 G"),
        (1e12, Notation::Si, "1 T"),
        (64.0, Notation::Binary, "64"),
        (1_048_576.0, Notation::Binary, "1 Mi"),
        (0.586, Notation::Percent, "58.6 %"),
        (0.1 + 0.2, Notation::Plain, "0.3"),
        (12_000.0, Notation::Plain, "12000"),
        (2e-7, Notation::Plain, "2e-7"),
    ];
    for (value, notation, expected) in cases {
        assert_eq!(number::written(value, notation), expected);
    }
}

#[test]
fn an_axis_of_powers_of_two_has_two_marks_at_least_around_a_single_value() {
    let y = Axis { scale: Scale::Log2, ..Axis::linear("a", "b") };
    for value in [0.9, 1.0, 1.5, 1024.0, 1400.0] {
        let series = vec![Series::new("s", Draw::Points, vec![Point::from((1.0, value))])];
        let chart = Chart { series, ..Chart::new("t", Axis::linear("a", "b"), y.clone()) };
        let (_, down) = scale::both(&chart).expect("all values have a place");
        assert!(down.major.len() >= 2, "{value}: {down:?}");
    }
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![Just(Scale::Linear), Just(Scale::Log10), Just(Scale::Log2)];
    let notation = prop_oneof![
        Just(Notation::Plain),
        Just(Notation::Si),
        Just(Notation::Binary),
        Just(Notation::Percent)
    ];
    (scale, notation).prop_map(|(scale, notation)| Axis { scale, notation, ..Axis::linear("a", "b") })
}

fn any_series() -> impl Strategy<Value = Series> {
    let draw = prop_oneof![
        Just(Draw::LineAndPoints),
        Just(Draw::Line),
        Just(Draw::Dashed),
        Just(Draw::Points),
        Just(Draw::Steps)
    ];
    // Positive, so that each axis can show them; from one value to fifteen powers of ten.
    let value = || (-5.0..10.0_f64).prop_map(|power| 10f64.powf(power));
    let points = prop::collection::vec((value(), value()).prop_map(Point::from), 1..20);
    ("[a-z<&]{1,12}", draw, points).prop_map(|(name, draw, points)| Series::new(name, draw, points))
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(48))]

    #[test]
    fn any_positive_data_on_any_axes_give_a_picture_with_marks_on_both(
        x in any_axis(), y in any_axis(), series in prop::collection::vec(any_series(), 1..5),
    ) {
        let mut chart = Chart { series, ..Chart::new("t", x, y) };
        chart.x.label = "across".to_owned();
        let (across, down) = scale::both(&chart).expect("all values have a place");
        for (axis, picked) in [(&across, 0), (&down, 1)] {
            prop_assert!((2..=20).contains(&axis.major.len()), "{:?}", axis);
            for point in chart.series.iter().flat_map(|series| &series.points) {
                let place = axis.place(if picked == 0 { point.x } else { point.y });
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&place));
            }
            prop_assert!(axis.major.iter().all(|&mark| (-1e-6..=1.0 + 1e-6).contains(&axis.place(mark))));
            prop_assert!(axis.major.windows(2).all(|marks| marks[0] < marks[1]));
        }
        let elements = drawn(&chart);
        for series in &chart.series {
            prop_assert!(texts(&elements).contains(&series.name.as_str()));
        }
    }
}
