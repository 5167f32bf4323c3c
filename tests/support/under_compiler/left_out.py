"""Which tests run under the compiler, and which of them cannot, by reason."""

SUITE = tuple(
    f"tests/{name}"
    for name in (
        "functional/", "nn/", "ops/", "autograd/", "test_views.py", "test_tensor.py", "test_creation.py", "test_conversion.py",
        "test_random.py", "test_promotion.py", "test_special_points.py", "test_argument_errors.py", "test_dtypes.py", "test_core_rows.py",
        "interop/test_numpy.py",
    )
)  # fmt: skip
TOO_LONG: frozenset[str] = frozenset({
    "tests/autograd/test_memory.py::test_a_hundred_thousand_ops_deep",
    "tests/autograd/test_memory.py::test_memory_is_flat_over_a_thousand_iterations",
    "tests/autograd/test_memory.py::test_release_in_a_thread_with_a_small_stack",
    "tests/autograd/test_memory.py::test_ten_thousand_ops_deep_differentiated_twice",
    "tests/nn/test_module.py::test_a_network_learns",
})
"""Programs of thousands of ops."""
_REFERENCES = "looks whether tensors are gone: a trace holds them as long as it lasts"
_CALLS = "sees how often hooks and backward of Functions are called: a trace calls them once more, on cotangents without values"
_UNTIED = "asks whether a gradient that is constant requires grad: under a trace it does not"
_COMPILES = "compiles or derives a function itself, of what the trace around it knows"
_MEMORY = "changes memory through NumPy, or copies it behind autograd's back"
_THREADS = "computes with tensors of the trace in other threads, which is refused"
_GENERATOR = "moves a generator by its private methods"
_VALUES = "the size of a result is known only from values"
_ZERO = "a constant zero times infinity is zero in a program"
_TYPES = "calls a row with numbers of a kind that its public function refuses"
_MAGNIFIED = "magnifies the rounding of a difference of large numbers, one of which XLA does not round"
_LINE = "reads the text of an error, which names the line under a trace"

_BY_REASON = {
    _REFERENCES: """
        autograd/test_checkpoint.py::test_no_cycles
        autograd/test_checkpoint.py::test_what_was_saved_is_dropped_and_the_function_runs_again
        autograd/test_memory.py::test_a_finaliser_may_compute_while_a_backward_pass_runs
        autograd/test_memory.py::test_an_error_in_backward_leaves_nothing_behind
        autograd/test_memory.py::test_an_input_is_kept_only_if_a_rule_reads_it
        autograd/test_memory.py::test_an_output_is_kept_only_if_a_rule_reads_it
        autograd/test_memory.py::test_nothing_survives_an_iteration
        autograd/test_memory.py::test_retained_graphs_keep_and_the_last_backward_frees
        test_views.py::test_a_detached_tensor_does_not_keep_the_graph_alive
        test_views.py::test_views_leave_no_reference_cycles
    """,
    _CALLS: """
        autograd/test_backward.py::test_backward_inside_a_hook
        autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[hooks_change_gradients_in_order]
        autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[hooks_pack_what_a_function_saves]
        autograd/test_function.py::test_unused_outputs_are_zeros_or_none_as_asked
        autograd/test_gradcheck.py::test_a_random_gradient_is_found
        autograd/test_hooks.py::test_grad_calls_hooks_of_what_it_differentiates
        autograd/test_hooks.py::test_hooks_run_in_pytorchs_order
        autograd/test_hooks.py::test_newest_tensor_is_visited_first
        nn/test_hooks.py::test_a_gradient_that_does_not_come_through_the_output_is_not_shown
        nn/test_hooks.py::test_full_backward_hook_without_a_gradient_of_the_input
        nn/test_hooks.py::test_hooks_of_all_modules
    """,
    _UNTIED: """
        autograd/test_backward.py::test_the_second_derivative_of_a_piecewise_linear_function_is_zero_not_missing
        autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[hessian_with_create_graph_and_strict]
        autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[hvp_with_create_graph_and_strict]
        autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[vhp_with_create_graph_and_strict]
        ops/test_signatures.py::test_the_engine_records_the_row
    """,
    _COMPILES: """
        nn/test_attention.py::test_compiled
        nn/test_layers.py::test_a_network_of_layers_is_compiled
        nn/test_layers.py::test_the_formula_of_a_layer_and_a_loss
        nn/test_recurrent.py::test_compiled
    """,
    _MEMORY: """
        autograd/test_backward.py::test_replacing_data_between_the_passes_keeps_the_old_values
        interop/test_numpy.py::test_writing_the_result_somewhere
        test_conversion.py::TestLeavingForNumPy::test_numpy_shares_memory
        test_core_rows.py::test_gradient
        test_core_rows.py::test_gradient_of_the_gradient
    """,
    _THREADS: "autograd/test_threads.py::test_one_graph_differentiated_in_many_threads",
    _GENERATOR: "test_random.py::test_a_stream_goes_back_to_a_mark",
    _VALUES: "functional/test_reduction_statistics.py::test_distinct_elements",
    _ZERO: """
        test_special_points.py::test_derivatives_at_special_points[1-maximum stops an infinite cotangent]
        test_special_points.py::test_derivatives_at_special_points[10000-maximum stops an infinite cotangent]
    """,
    _TYPES: "ops/test_table.py::test_value_and_derivatives_are_those_of_the_meaning[imag]",
    _LINE: "autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[numpy_while_recording]",
}
_ON_XLA = {
    _MAGNIFIED: "autograd/test_eager_programs.py::test_a_program_shows_what_pytorch_shows[line_logsumexp]",
}


def _tests(by_reason: dict[str, str]) -> dict[str, frozenset[str]]:
    return {reason: frozenset(f"tests/{line.strip()}" for line in lines.strip().splitlines()) for reason, lines in by_reason.items()}


LEFT_OUT = {"numpy": _tests(_BY_REASON), "xla": _tests({**_BY_REASON, **_ON_XLA})}
"""Tests that cannot run under a trace, by back end. They are run all the same: one that passes must be taken off the list."""
