// tests/arch/program.rs: what the patcher meets in a Rust program.
fn main() {
    println!("{}", std::env::args().count());
}
